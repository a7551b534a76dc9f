package sharing

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"fairway/internal/app/environment"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/source"
	"fairway/internal/state"
	"fairway/internal/state/address"
	"fairway/internal/table"
)

// Options say where the state is.
type Options struct {
	State   string // --state
	KeyFile string // --stateKeyFile
}

// Bind declares the flags.
func (o *Options) Bind(fs *pflag.FlagSet) {
	fs.StringVar(&o.State, "state", "file",
		"where the self-made root, join tokens and revocations are kept, for all control planes of the "+
			"mesh: "+address.Usage+"; file is the folder of --caStateDir")
	fs.StringVar(&o.KeyFile, "stateKeyFile", "",
		"file with 32 random bytes in base64: records in etcd or Consul are encrypted with this key, and backups")
}

// Validate returns the options that cannot work.
func (o Options) Validate() error {
	a, err := address.Parse(o.State)
	if err != nil {
		return err
	}
	if a.Kind == "" {
		return nil
	}
	for _, text := range a.Reach.URLs {
		at, err := url.Parse(text)
		if err != nil {
			return fmt.Errorf("--state: %w", err)
		}
		ip := net.ParseIP(at.Hostname())
		local := at.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
		if at.Scheme == "http" && !local && o.KeyFile == "" {
			return fmt.Errorf(
				"--state: %s is asked in plaintext, and the root's key would be seen on the way: want tls=true, or --stateKeyFile", at.Host)
		}
	}
	return nil
}

// KeepCopy keeps a copy of what the store has in a folder of this machine, if --stateKeyFile encrypts it. Without a folder it keeps none.
func (o Options) KeepCopy(of *state.Shared, folder string) {
	a, err := address.Parse(o.State)
	if of != nil && folder != "" && err == nil {
		of.KeepCopy(filepath.Join(folder, state.CopyFile), a.Kind+"://"+a.Prefix, time.Now)
	}
}

// Open opens the store; nil: the state is in files. It makes no call.
func (o Options) Open(log *slog.Logger) (*state.Shared, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	a, err := address.Parse(o.State)
	if err != nil || a.Kind == "" {
		return nil, err
	}
	sealer, err := state.NewSealer(o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("--stateKeyFile: %w", err)
	}
	store, err := a.Open()
	if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	if !sealer.Encrypts() {
		log.Warn("the root's key is not encrypted in the store, and its readers can issue certificates; --stateKeyFile names a key",
			"store", store.String())
	}
	return state.New(store, sealer, environment.Replica(), log), nil
}

// Problems is the input of problems.
type Problems = *table.Input[source.Place, []mesh.Problem]

// Report has a problem say why the store is away, while it is.
func Report(of *state.Shared, in Problems) {
	if of == nil {
		return
	}
	place := source.Place{Source: "shared state", Name: "state"}
	of.Tell(func(s state.Status) {
		if s.Reason == "" {
			in.Delete(place)
			return
		}
		in.Set(place, problem(s.Reason, reachable+"Until then certificates are issued from the known root, revocations of other control "+
			"planes do not arrive, machines of others stay as they were read, and join tokens are refused"))
	})
}

const reachable = "make the store reachable; its user has to read and write below the prefix. "

// ReportRoot has a problem say why the root is not known; nil: it is.
func ReportRoot(unknown error, in Problems) {
	place := source.Place{Source: "shared state", Name: "root"}
	if unknown == nil {
		in.Delete(place)
		return
	}
	why := printable.Text(unknown.Error(), printable.Long)
	in.Set(place, problem("no certificate is issued here, and no client is served with TLS: "+why,
		reachable+"Agents use other control planes meanwhile"))
}

func problem(message, fix string) []mesh.Problem {
	return []mesh.Problem{{
		Object: mesh.ObjectRef{Kind: "pilot-discovery", Name: "state"}, Field: "--state", Code: code.StateAway, Severity: mesh.Error,
		Message: message, Fix: fix,
	}}
}

// Register adds the metrics of the store or folder, and of the lease.
func Register(to prometheus.Registerer, of interface{ Status() state.Status }) error {
	number := func(yes bool) float64 {
		if yes {
			return 1
		}
		return 0
	}
	gauge := func(name, help string, value func(state.Status) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(of.Status()) })
	}
	counter := func(name, help string, value func(state.Status) float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return value(of.Status()) })
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		gauge("fairway_state_up", "Whether the store of shared state answers.",
			func(s state.Status) float64 { return number(s.Reason == "") }),
		gauge("fairway_state_copy_age_seconds",
			"Age of this machine's copy of the shared state while it takes the place of the store; 0: it does not.",
			func(s state.Status) float64 {
				if s.Copied.IsZero() {
					return 0
				}
				return time.Since(s.Copied).Seconds()
			}),
		gauge("fairway_state_writer", "Whether this control plane holds the lease of shared state.",
			func(s state.Status) float64 { return number(s.Writes) }),
		counter("fairway_state_leases_total", "How often this control plane took the lease of shared state.",
			func(s state.Status) float64 { return float64(s.Leases) }),
		counter("fairway_state_conflicts_total", "Changes of shared state that began anew because another control plane was first.",
			func(s state.Status) float64 { return float64(s.Conflicts) }),
		counter("fairway_state_failures_total", "Calls to the store of shared state that failed.",
			func(s state.Status) float64 { return float64(s.Failures) }),
	} {
		errs = append(errs, to.Register(c))
	}
	return errors.Join(errs...)
}
