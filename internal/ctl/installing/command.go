package installing

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/strvals"

	"fairway/deploy"
	"fairway/internal/ctl/chart"
	"fairway/internal/ctl/cluster"
	"fairway/internal/ctl/install"
	"fairway/internal/ctl/output"
	"fairway/internal/disk"
)

// mostValues bounds a file of values, in bytes.
const mostValues = 16 << 20

// flags are the flags of both commands.
type flags struct {
	at       *cluster.Flags
	revision string
	within   time.Duration

	files, sets, texts []string
	dryRun             string
	crds, noCRDs       bool
	purge              bool
}

// Commands returns install and uninstall.
func Commands(at *cluster.Flags) []*cobra.Command {
	run := func(do func(*cobra.Command) error) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, _ []string) error {
			if err := do(c); err != nil {
				return output.Fail(err)
			}
			return nil
		}
	}
	in, out := &flags{at: at}, &flags{at: at}
	install := &cobra.Command{
		Use: "install", Args: cobra.NoArgs,
		Short: "Put a control plane into the cluster, or change one that is there, and wait until it serves",
		Long: "Applies the chart that pilotctl carries, and the CRDs of Istio's kinds. The installation is recorded as Helm does it, so " +
			"helm list, helm upgrade and\nhelm uninstall work with it. Installing again applies the values of this command.\n\n" +
			"  pilotctl install --set global.hub=registry.example/mesh --set gateway.enabled=true\n" +
			"  pilotctl install --set global.hub=registry.example/mesh --set profile=demo\n" +
			"  pilotctl install --revision canary -f values.yaml\n" +
			"  pilotctl install -f values.yaml --dry-run            # prints what would be applied\n" +
			"  pilotctl install -f values.yaml --dry-run=server     # has the API server judge it\n" +
			"  pilotctl install --crds                              # the CRDs alone\n\n" +
			"global.hub has no default: no public registry has the images. Profiles are minimal, default (with an ingress gateway) " +
			"and demo.",
		RunE: run(in.install),
	}
	uninstall := &cobra.Command{
		Use: "uninstall", Args: cobra.NoArgs,
		Short: "Take a control plane away, and all that install made for it; CRDs, rules and the root of the mesh stay unless --purge",
		RunE:  run(out.uninstall),
	}
	in.bindInstall(install)
	out.bind(uninstall)
	uninstall.Flags().BoolVar(&out.purge, "purge", false,
		"with the last control plane, also the CRDs, and with them all rules, the root of the mesh, and the namespace if install made it")
	return []*cobra.Command{install, uninstall}
}

func (f *flags) bind(c *cobra.Command) {
	c.Flags().StringVarP(&f.revision, "revision", "r", "",
		"name of the control plane where there are several (default: the one without a name)")
	c.Flags().DurationVar(&f.within, "readiness-timeout", 5*time.Minute, "how long the cluster may take")
}

func (f *flags) bindInstall(c *cobra.Command) {
	f.bind(c)
	s := c.Flags()
	s.StringArrayVarP(&f.files, "values", "f", nil, "file with values of the chart; may be repeated; a later one has precedence")
	s.StringArrayVar(&f.sets, "set", nil, "a value, as pilot.replicaCount=3, or profile=demo; has precedence over files")
	s.StringArrayVar(&f.texts, "set-string", nil, "a value that is a text whatever it looks like")
	s.StringVar(&f.dryRun, "dry-run", "",
		"client: print what would be applied; server: have the API server judge it; either changes nothing")
	s.Lookup("dry-run").NoOptDefVal = "client"
	s.BoolVar(&f.crds, "crds", false, "the CRDs of Istio's kinds alone")
	s.BoolVar(&f.noCRDs, "skip-crds", false, "leave the CRDs as they are")
}

// values merges the values of the flags.
func (f *flags) values() (install.Values, error) {
	out := install.Values{}
	for _, file := range f.files {
		text, err := disk.Stream(file, mostValues)
		if err != nil {
			return nil, fmt.Errorf("--values: %w", err)
		}
		some, err := chart.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("--values: %s: %w", file, err)
		}
		out = chart.Merge(out, some)
	}
	for _, set := range f.sets {
		if err := strvals.ParseInto(set, out); err != nil {
			return nil, fmt.Errorf("--set %s: %w; want name=value", set, err)
		}
	}
	for _, set := range f.texts {
		if err := strvals.ParseIntoString(set, out); err != nil {
			return nil, fmt.Errorf("--set-string %s: %w; want name=value", set, err)
		}
	}
	return out, nil
}

func (f *flags) options(c *cobra.Command) (install.Options, error) {
	if f.within <= 0 {
		return install.Options{}, fmt.Errorf("--readiness-timeout: %s; want a positive duration as 5m", f.within)
	}
	config, err := f.at.Config()
	if err != nil {
		return install.Options{}, err
	}
	return install.Options{
		Config: config, Namespace: f.at.Namespace, Revision: f.revision, NoCRDs: f.noCRDs, Wait: f.within, Log: c.OutOrStdout(),
	}, nil
}

func (f *flags) install(c *cobra.Command) error {
	values, err := f.values()
	if err != nil {
		return err
	}
	switch {
	case f.crds && f.noCRDs:
		return errors.New("--crds and --skip-crds: want one of them")
	case f.dryRun != "" && f.dryRun != "client" && f.dryRun != "server":
		return fmt.Errorf("--dry-run=%s: want client or server", f.dryRun)
	case f.dryRun == "client" && f.crds:
		text, err := deploy.CRDs()
		if err == nil {
			_, err = c.OutOrStdout().Write(text)
		}
		return err
	case f.dryRun == "client":
		text, err := install.Manifests(f.at.Namespace, f.revision, values)
		if err == nil {
			_, err = fmt.Fprint(c.OutOrStdout(), text)
		}
		return err
	}
	o, err := f.options(c)
	if err != nil {
		return err
	}
	o.Values = values
	switch {
	case f.dryRun == "server":
		return install.Judge(c.Context(), o)
	case f.crds:
		return install.Define(c.Context(), o.Config, o.Log)
	}
	return install.Install(c.Context(), o)
}

func (f *flags) uninstall(c *cobra.Command) error {
	o, err := f.options(c)
	if err != nil {
		return err
	}
	return install.Uninstall(c.Context(), o, f.purge)
}
