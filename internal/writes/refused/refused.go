package refused

import (
	"fairway/internal/kubeclient"
	"fairway/internal/mesh"
	"fairway/internal/writes/peers"
	"fairway/internal/writes/work"
)

// Options of a Writer.
type Options struct {
	Leases    *kubeclient.Clients
	Namespace string // of the Leases
	Identity  string // of this control plane: unlike that of any other
	// OnRefusals takes what proxies of another control plane refuse from now on; it replaces what OnRefusals took before for that control
	// plane.
	OnRefusals func(by string, list []mesh.Problem)
	Report     *work.Report
}

// Writer keeps this control plane's Lease while Run runs, unless this one leads, and passes the others' refusals to OnRefusals while Listen
// runs.
type Writer struct{ *peers.Writer }

// New returns a writer without refusals.
func New(o Options) *Writer {
	return &Writer{peers.New(peers.Options{
		Leases: o.Leases, Namespace: o.Namespace, Identity: o.Identity,
		Task: "refused", Prefix: "istio-refused-", Marked: "fairway/refused",
		OnText: func(by, text string) error {
			list, err := unpack(text)
			o.OnRefusals(by, list)
			return err
		},
		Report: o.Report,
	})}
}

// Set sets what proxies that are connected here refuse. It does not block; any goroutine may call it.
func (w *Writer) Set(list []mesh.Problem) { w.Writer.Set(pack(list)) }
