package ctl

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/analyze"
	"fairway/internal/ctl/output"
	"fairway/internal/mesh"
	"fairway/internal/printable"
)

// severities are the values that thresholds accept, as istioctl spells them.
var severities = map[string]mesh.Severity{"info": mesh.Info, "warning": mesh.Warning, "error": mesh.Error}

// analysis holds the flags of analyze. Their names are istioctl's.
type analysis struct {
	live, recursive, unknown, everywhere bool

	namespace, revision, meshConfig string
	fail, show, format              string
	suppressed                      []string
	within                          time.Duration
}

func (s *session) analyze() *cobra.Command {
	var a analysis
	cmd := &cobra.Command{
		Use:   "analyze [FILE|FOLDER|-]...",
		Short: "Find errors in files, or in a cluster, before a control plane applies them",
		Long: "Reads files of Istio's and Kubernetes' objects, and says of them what pilotctl problems says once a control plane has " +
			"them. No control plane is asked.\nWithout files it reads the kubeconfig's cluster; with --use-kube that and the files, " +
			"as if these had been applied.\n\nWithout a cluster only the files are known: a host that is in none of them is unknown.\n\n" +
			"  pilotctl analyze rules/ deploy.yaml\n" +
			"  pilotctl analyze --use-kube new.yaml\n" +
			"  kustomize build | pilotctl analyze -\n\n" +
			"It ends with 0 where nothing is as bad as --failure-threshold, with 1 where something is, and with 2 where it could " +
			"not read what it was to read.",
		PreRunE: func(_ *cobra.Command, args []string) error { return a.check(s, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			o := analyze.Options{
				Paths: args, Stdin: cmd.InOrStdin(), Recursive: a.recursive, Within: a.within,
				MeshConfig: a.meshConfig, Namespace: a.namespace, RootNamespace: s.cluster.Namespace, Revision: a.revision,
				IgnoreUnknown: a.unknown,
			}
			if a.readsCluster(args) {
				config, err := s.cluster.Config()
				if err != nil {
					return err
				}
				o.Cluster = config
			}
			found, err := analyze.Run(cmd.Context(), o)
			found = a.counting(found, len(args) == 0)
			if err != nil && len(a.shown(found)) == 0 {
				return err // "no problems" would not be true
			}
			if err := output.WriteProblems(cmd.OutOrStdout(), a.format, s.own, a.shown(found)); err != nil {
				return output.Fail(err)
			}
			if err != nil {
				return err
			}
			return a.verdict(found)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&a.live, "use-kube", "k", false, "read the kubeconfig's cluster too (without files: always)")
	f.BoolVarP(&a.recursive, "recursive", "R", false, "read folders in folders too")
	f.StringVarP(&a.namespace, "namespace", "n", "", "namespace of objects that name none (default \"default\"); of a cluster alone: "+
		"the namespace to report")
	f.BoolVarP(&a.everywhere, "all-namespaces", "A", false, "report the problems of all namespaces; has precedence over --namespace")
	f.StringVar(&a.revision, "revision", "", "of a cluster: the objects that the control plane of this revision reads")
	f.StringVar(&a.meshConfig, "meshConfigFile", "",
		"file with the mesh configuration (default: the files' or the cluster's, else Istio's defaults)")
	f.StringVar(&a.fail, "failure-threshold", "Error", "lowest severity that makes the exit code 1: Info, Warning or Error")
	f.StringVar(&a.show, "output-threshold", "Info", "lowest severity that is reported: Info, Warning or Error")
	f.StringVarP(&a.format, "output", "o", "log", "log, "+strings.Join(output.ProblemFormats, ", "))
	f.BoolVar(&a.unknown, "ignore-unknown", false, "say nothing of documents that are not objects of this mesh, as values of charts")
	f.StringArrayVarP(&a.suppressed, "suppress", "S", nil,
		"do not report a code for an object, as 'NoEndpoints=ServiceEntry legacy.shop'; * matches any text; may be repeated")
	f.DurationVar(&a.within, "timeout", 30*time.Second, "how long the cluster may take")
	return cmd
}

// readsCluster reports whether the kubeconfig's cluster is analyzed.
func (a *analysis) readsCluster(args []string) bool { return a.live || len(args) == 0 }

// check validates the command line.
func (a *analysis) check(s *session, args []string) error {
	var errs []error
	for _, of := range []struct{ flag, value string }{{"--failure-threshold", a.fail}, {"--output-threshold", a.show}} {
		if _, ok := severities[strings.ToLower(of.value)]; !ok {
			errs = append(errs, fmt.Errorf("%s %s: want Info, Warning or Error", of.flag, printable.Text(of.value, printable.Short)))
		}
	}
	errs = append(errs, output.KnownProblemFormat(a.format, "log"))
	for _, one := range a.suppressed {
		code, of, ok := strings.Cut(one, "=")
		_, bad := path.Match(of, "")
		if _, worse := path.Match(code, ""); !ok || bad != nil || worse != nil {
			errs = append(errs, fmt.Errorf("--suppress %s: want CODE=KIND NAME.NAMESPACE", printable.Text(one, printable.Short)))
		}
	}
	if a.within <= 0 {
		errs = append(errs, fmt.Errorf("--timeout %s: want a positive duration as 30s", a.within))
	}
	if len(args) == 0 && !a.live && !s.cluster.Known() {
		errs = append(errs, errors.New("name files or folders to analyze, - for the standard input, or a cluster with --kubeconfig"))
	}
	return errors.Join(errs...)
}

// counting returns the problems that count. live is set if only a cluster was read: then only objects of the chosen namespace count.
func (a *analysis) counting(found []mesh.Problem, live bool) []mesh.Problem {
	return slices.DeleteFunc(found, func(p mesh.Problem) bool {
		elsewhere := live && !a.everywhere && a.namespace != "" && p.Object.Namespace != a.namespace
		return elsewhere || a.isSuppressed(p)
	})
}

// shown returns the problems that are printed.
func (a *analysis) shown(found []mesh.Problem) []page.ProblemInfo {
	out := []page.ProblemInfo{}
	for _, p := range found {
		if p.Severity >= severities[strings.ToLower(a.show)] {
			out = append(out, page.ProblemOf(p))
		}
	}
	return out
}

// isSuppressed reports whether a flag suppresses the problem. Patterns are path.Match's; names have no slashes.
func (a *analysis) isSuppressed(p mesh.Problem) bool {
	of := strings.TrimSuffix(p.Object.Kind+" "+p.Object.Name+"."+p.Object.Namespace, ".")
	return slices.ContainsFunc(a.suppressed, func(one string) bool {
		code, pattern, _ := strings.Cut(one, "=")
		is, _ := path.Match(code, p.Code)
		fits, _ := path.Match(pattern, of)
		return is && fits
	})
}

// verdict returns an error if a problem is as bad as the threshold, or worse.
func (a *analysis) verdict(found []mesh.Problem) error {
	least, n := severities[strings.ToLower(a.fail)], 0
	for _, p := range found {
		if p.Severity >= least {
			n++
		}
	}
	switch n {
	case 0:
		return nil
	case 1:
		return output.Fail(fmt.Errorf("1 problem of --failure-threshold %s or worse", least))
	}
	return output.Fail(fmt.Errorf("%d problems of --failure-threshold %s or worse", n, least))
}
