package api

import (
	"errors"
	"fmt"
	"net"
	"time"

	"fairway/internal/identity"
	"fairway/internal/printable"
	"fairway/internal/source/platform"
)

// Options are those of one registry of kind Memory. The zero value serves nothing by HTTP and is filled by methods alone.
type Options struct {
	// Address is where the API is served, as host:port; empty: nowhere.
	Address string `json:"address,omitempty"`
	// CertFile and KeyFile are the server's certificate and its key, read anew for each connection. An address that other
	// machines reach needs them.
	CertFile string `json:"certFile,omitempty"`
	KeyFile  string `json:"keyFile,omitempty"`
	// ClientCAFile has the authorities that clients' certificates must be signed by; empty: clients need none.
	ClientCAFile string `json:"clientCAFile,omitempty"`
	// TokenFile has the tokens that clients show as "Authorization: Bearer …", one a line, and is read anew for each request.
	// An address that other machines reach needs it, or ClientCAFile.
	TokenFile string `json:"tokenFile,omitempty"`
	// StateFile is the file that keeps the state, so that a restart loses nothing; empty: a restart begins with nothing.
	StateFile string `json:"stateFile,omitempty"`
	// AwaitSnapshot says that a state that begins empty counts only once the first snapshot was put, so that a restart without
	// StateFile takes nothing away from proxies. How long a start waits for it is bounded elsewhere.
	AwaitSnapshot bool `json:"awaitSnapshot,omitempty"`

	platform.Naming

	// Bounds, each with its default. A change beyond them is refused.
	MaxServices  int   `json:"maxServices,omitempty"`    // 100,000
	MaxInstances int   `json:"maxInstances,omitempty"`   // 1,000,000, of all services
	MaxObjects   int   `json:"maxObjects,omitempty"`     // 100,000
	MaxBody      int64 `json:"maxBodyMiB,omitempty"`     // 16, of a request that puts one thing
	MaxSnapshot  int64 `json:"maxSnapshotMiB,omitempty"` // 64, of a snapshot
	MaxState     int64 `json:"maxStateMiB,omitempty"`    // 128, of all that is stored, as JSON or YAML
	MaxPorts     int   `json:"maxPorts,omitempty"`       // 1,000,000, of all services
	MaxWatches   int   `json:"maxWatches,omitempty"`     // 64 at once
}

// defaultHost is the template of services' hosts. A service of a Kubernetes cluster with that name and namespace is the same host.
const defaultHost = "{name}.{namespace}.svc.cluster.local"

// withDefaults returns the options with what they leave out.
func (o Options) withDefaults() Options {
	for _, n := range []struct {
		of *int
		is int
	}{
		{&o.MaxServices, 100_000}, {&o.MaxInstances, 1_000_000}, {&o.MaxObjects, 100_000}, {&o.MaxPorts, 1_000_000},
		{&o.MaxWatches, 64},
	} {
		if *n.of == 0 {
			*n.of = n.is
		}
	}
	for _, n := range []struct {
		of *int64
		is int64
	}{{&o.MaxBody, 16}, {&o.MaxSnapshot, 64}, {&o.MaxState, 128}} {
		if *n.of == 0 {
			*n.of = n.is
		}
	}
	return o
}

// Validate returns every mistake as an error.
func (o Options) Validate() error {
	errs := []error{o.Naming.Validate()}
	o = o.withDefaults()
	if o.Address == "" {
		for _, f := range []struct{ name, value string }{
			{"certFile", o.CertFile}, {"clientCAFile", o.ClientCAFile}, {"tokenFile", o.TokenFile},
		} {
			if f.value != "" {
				errs = append(errs, fmt.Errorf("%s: nothing is served; give an address as 127.0.0.1:15020, or leave it out", f.name))
			}
		}
	} else {
		errs = append(errs, o.checkAddress())
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		errs = append(errs, errors.New("certFile, keyFile: one of them alone does nothing; give both, or neither"))
	}
	if o.ClientCAFile != "" && o.CertFile == "" {
		errs = append(errs, errors.New("clientCAFile: clients show certificates over TLS alone; give certFile and keyFile too"))
	}
	for _, n := range []struct {
		field string
		n     int64
		most  int64
	}{
		{"maxServices", int64(o.MaxServices), 10_000_000},
		{"maxInstances", int64(o.MaxInstances), 100_000_000},
		{"maxObjects", int64(o.MaxObjects), 10_000_000},
		{"maxPorts", int64(o.MaxPorts), 10_000_000},
		{"maxBodyMiB", o.MaxBody, 1 << 10},
		{"maxSnapshotMiB", o.MaxSnapshot, 4 << 10},
		{"maxStateMiB", o.MaxState, 64 << 10},
		{"maxWatches", int64(o.MaxWatches), 100}, // a server has 128 requests at once
	} {
		if n.n < 1 || n.n > n.most {
			errs = append(errs, fmt.Errorf("%s: %d; want 1 to %d", n.field, n.n, n.most))
		}
	}
	return errors.Join(errs...)
}

func (o Options) checkAddress() error {
	if _, err := net.ResolveTCPAddr("tcp", o.Address); err != nil {
		return fmt.Errorf("address: %s is not valid; want host:port", printable.Text(o.Address, printable.Short))
	}
	if o.local() {
		return nil
	}
	var errs []error
	if o.TokenFile == "" && o.ClientCAFile == "" {
		errs = append(errs, errors.New(
			"tokenFile: other machines can reach the address and could change the mesh; give tokenFile or clientCAFile, or an address "+
				"of 127.0.0.1"))
	}
	if o.CertFile == "" {
		errs = append(errs, errors.New(
			"certFile, keyFile: other machines can reach the address; give a certificate to encrypt connections"))
	}
	return errors.Join(errs...)
}

// local reports whether no other machine reaches the address.
func (o Options) local() bool {
	host, _, err := net.SplitHostPort(o.Address)
	return err == nil && identity.OnThisMachine(host)
}

// Bounds of a TTL.
const (
	leastTTL = time.Second
	mostTTL  = 24 * time.Hour
)
