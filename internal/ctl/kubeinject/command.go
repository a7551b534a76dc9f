package kubeinject

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/strvals"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/config"
	"fairway/internal/config/document"
	"fairway/internal/ctl/chart"
	"fairway/internal/disk"
	"fairway/internal/inject"
	"fairway/internal/mesh"
	"fairway/internal/printable"
)

// flags are the command's flags.
type flags struct {
	files                      []string
	output                     string
	configFile, valuesFile     string
	meshFile                   string
	revision, system           string
	namespace, cluster, domain string
	sets                       []string
}

// Command is `pilotctl kube-inject`.
func Command() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:          "kube-inject -f FILE",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		Short:        "Put proxies into the pods of a file of Kubernetes objects",
		Long: "Prints the file with a proxy in each pod that is to have one: of Pods, Deployments, StatefulSets, DaemonSets, " +
			"ReplicaSets, ReplicationControllers,\nJobs, CronJobs and Lists of these. Other text is not changed; an injected object " +
			"loses its comments. A file that is injected\nalready is brought up to date.\n\n" +
			"Labels of namespaces are ignored. A pod is not changed if its own labels or annotations refuse injection,\n" +
			"or if it uses its machine's network; the error output has the reason.\n\n" +
			"The registry of the proxy's image has no default: name it with --set, or take the values of the cluster's injector.\n\n" +
			"  pilotctl kube-inject -f shop.yaml --set global.hub=registry.example/mesh | kubectl apply -f -\n" +
			"  kubectl -n istio-system get configmap istio-sidecar-injector -o jsonpath='{.data.values}' > values.yaml\n" +
			"  kubectl -n istio-system get configmap istio-sidecar-injector -o jsonpath='{.data.config}' > config.yaml\n" +
			"  pilotctl kube-inject -f shop.yaml --valuesFile values.yaml --injectConfigFile config.yaml | kubectl apply -f -",
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	s := c.Flags()
	s.StringArrayVarP(&f.files, "filename", "f", nil, "file to read; - is the standard input; may be given more than once")
	s.StringVarP(&f.output, "output", "o", "", "file to write (default the standard output)")
	s.StringVar(&f.configFile, "injectConfigFile", "",
		"file with the injector's configuration: key config of its ConfigMap (default: built in)")
	s.StringVar(&f.valuesFile, "valuesFile", "", "file with the injector's values: key values of its ConfigMap (default: built in)")
	s.StringArrayVar(&f.sets, "set", nil,
		"a value over those of --valuesFile, as global.hub=registry.example/mesh; may be given more than once")
	s.StringVar(&f.meshFile, "meshConfigFile", "", "file with the mesh configuration (default: Istio's defaults)")
	s.StringVarP(&f.revision, "revision", "r", "", "revision of the control plane that the proxies are for")
	s.StringVarP(&f.system, "istioNamespace", "i", "istio-system", "namespace of the control plane")
	s.StringVarP(&f.namespace, "namespace", "n", "default", "namespace of objects that name none")
	s.StringVar(&f.cluster, "clusterID", "Kubernetes", "name of the cluster, where the values name none")
	s.StringVar(&f.domain, "domain", "cluster.local", "DNS suffix of services, where the values name none")
	return c
}

func (f *flags) run(c *cobra.Command) error {
	if len(f.files) == 0 {
		return errors.New("name the file to inject: -f FILE, or -f - for the standard input")
	}
	injector, err := f.injector()
	if err != nil {
		return err
	}
	r := &run{injector: injector, namespace: f.namespace}
	var out []byte
	for _, name := range f.files {
		path, shown := name, printable.Text(name, printable.Short)
		if name == "-" {
			path, shown = "/dev/stdin", "standard input"
		}
		text, err := disk.Stream(path, disk.MaxFile)
		if err != nil {
			return fmt.Errorf("-f: %w", err)
		}
		injected, err := r.file(shown, text)
		if err != nil {
			return err
		}
		out = joined(out, injected)
	}
	for _, remark := range r.remarks {
		fmt.Fprintln(c.ErrOrStderr(), remark)
	}
	if f.output != "" {
		return os.WriteFile(f.output, out, 0o644) // as readable as the file that it comes from
	}
	_, err = c.OutOrStdout().Write(out)
	return err
}

// joined appends one file to another.
func joined(before, after []byte) []byte {
	if len(before) == 0 {
		return after
	}
	if before[len(before)-1] != '\n' {
		before = append(before, '\n')
	}
	if !separates(after) {
		before = append(before, "---\n"...)
	}
	return append(before, after...)
}

func (f *flags) injector() (*inject.Injector, error) {
	s := inject.Settings{Revision: f.revision, System: f.system, Cluster: f.cluster, Domain: f.domain}
	var errs []error
	for _, one := range []struct {
		flag, path string
		to         *inject.Text
	}{{"--injectConfigFile", f.configFile, &s.Config}, {"--valuesFile", f.valuesFile, &s.Values}} {
		if one.path == "" {
			continue
		}
		text, err := disk.Stream(one.path, inject.MaxText)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", one.flag, err))
		}
		*one.to = inject.Text{Name: printable.Text(one.path, printable.Short), Text: text}
	}
	if err := f.set(&s.Values); err != nil {
		errs = append(errs, err)
	}
	m, err := readMesh(f.meshFile)
	s.Mesh = m
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	return inject.New(s)
}

// set puts the values of --set over those of the file.
func (f *flags) set(text *inject.Text) error {
	if len(f.sets) == 0 {
		return nil
	}
	all, err := chart.Parse(text.Text)
	if err != nil {
		return fmt.Errorf("--valuesFile: %s: %w", text.Name, err)
	}
	for _, one := range f.sets {
		if err := strvals.ParseInto(one, all); err != nil {
			return fmt.Errorf("--set %s: %w; want name=value", printable.Text(one, printable.Short), err)
		}
	}
	text.Name = cmp.Or(text.Name, "--set")
	text.Text, err = json.Marshal(all)
	return err
}

// readMesh reads a mesh configuration as the control plane does.
func readMesh(path string) (*meshconfig.MeshConfig, error) {
	if path == "" {
		return config.DefaultMeshConfig(), nil
	}
	text, err := disk.Stream(path, disk.MaxFile)
	if err != nil {
		return nil, fmt.Errorf("--meshConfigFile: %w", err)
	}
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		return nil, err
	}
	object, problems := decoder.DecodeMeshConfig(document.Document{File: path, Line: 1, Text: text})
	if object != nil {
		return config.Spec[*meshconfig.MeshConfig](object), nil
	}
	var errs []error
	for _, p := range problems {
		if p.Severity == mesh.Error {
			shown := printable.Text(path, printable.Short)
			errs = append(errs, fmt.Errorf("--meshConfigFile: %s:%d: %s: %s", shown, p.Line, p.Field, p.Message))
		}
	}
	if len(errs) == 0 {
		return config.DefaultMeshConfig(), nil // the file is empty
	}
	return nil, errors.Join(errs...)
}
