package check

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"fairway/internal/ctl/cluster"
	"fairway/internal/ctl/truth"
)

// Session finds control planes.
type Session interface {
	truth.Session
	// InCluster reports whether the control planes are in a cluster.
	InCluster(context.Context) (bool, error)
	// Clocked has the clock of a control plane compared with this machine's at its further answers.
	Clocked(truth.Plane) *Clock
}

// each bounds one question.
const each = 10 * time.Second

// options are the flags.
type options struct {
	pre, machine            bool
	namespace               string // of control planes
	discovery, files, rules string
	timeout                 time.Duration
}

// Command returns the verb.
func Command(s Session, version string, flags *cluster.Flags) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use: "check", Aliases: []string{"precheck"}, Args: cobra.NoArgs,
		Short: "Check a cluster or a machine before an installation, or a mesh that runs: what is wrong, and what mends it",
		Long: "Looks at the control planes that run: versions, sources, problems, certificates, clocks, proxies; in a cluster also at " +
			"the webhooks and the rights of the user. It changes nothing.\n\n" +
			"  pilotctl check                  the mesh that runs\n" +
			"  pilotctl check --pre            a cluster, before pilotctl install\n" +
			"  pilotctl check --machine --discovery istiod.example:15012 --files DIR\n" +
			"                                  this machine, before an agent starts on it\n\n" +
			"It ends with 0 if all is well (warnings do not count), with 1 if there is something to mend, and with 2 if something could " +
			"not be found out.",
		PreRunE: func(*cobra.Command, []string) error { return o.check() },
		RunE: func(cmd *cobra.Command, _ []string) error {
			defer s.Close()
			ctx, stop := context.WithTimeout(cmd.Context(), o.timeout)
			defer stop()
			o.namespace = flags.Namespace
			var all []Result
			switch {
			case o.machine:
				all = onMachine(ctx, o)
			case o.pre:
				all = before(ctx, flags, o)
			default:
				all = after(ctx, s, flags, version)
			}
			return show(cmd, s.Format(), all)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.pre, "pre", false, "of a cluster without a control plane, before an installation")
	f.BoolVar(&o.machine, "machine", false, "of this machine, for an agent")
	f.StringVar(&o.discovery, "discovery", "",
		"with --machine: the address of the control plane that agents connect to, as istiod.example:15012")
	f.StringVar(&o.files, "files", "", "with --machine: folder of the files that pilotctl workload wrote")
	f.StringVar(&o.rules, "intercept", "auto", "with --machine: how connections are intercepted: auto, nftables, iptables or none")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "how long all checks may take together")
	return c
}

func (o *options) check() error {
	var errs []error
	if o.pre && o.machine {
		errs = append(errs, errors.New("--pre is for a cluster, --machine for this machine: want one of them"))
	}
	if !o.machine && (o.discovery != "" || o.files != "") {
		errs = append(errs, errors.New("--discovery and --files are for --machine"))
	}
	switch o.rules {
	case "auto", "nftables", "iptables", "none":
	default:
		errs = append(errs, errors.New("--intercept: want auto, nftables, iptables or none"))
	}
	if o.timeout <= 0 {
		errs = append(errs, errors.New("--timeout: want a positive duration as 30s"))
	}
	return errors.Join(errs...)
}

// after checks a mesh that runs.
func after(ctx context.Context, s Session, flags *cluster.Flags, version string) (all []Result) {
	inside, err := s.InCluster(ctx)
	if err != nil {
		r := &results{part: "control planes", page: planesPage}
		r.unknown("which to ask", err, "name one of them")
		return r.all
	}
	if inside {
		all = append(all, ofCluster(ctx, flags, false)...)
	}
	return append(all, ofPlanes(ctx, s, version)...)
}

// before checks a cluster for an installation.
func before(ctx context.Context, flags *cluster.Flags, o options) []Result {
	return ofCluster(ctx, flags, true)
}
