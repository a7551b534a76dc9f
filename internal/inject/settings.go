package inject

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"fairway/internal/config/document"
	"fairway/internal/inject/form"
	"fairway/internal/inject/language"
	"fairway/internal/inject/values"
)

// Settings are the input of injection beside the pod.
type Settings struct {
	Revision string   // of this control plane; empty: "default"
	Tags     []string // further names of the revision
	System   string   // the control plane's namespace; empty: istio-system
	Cluster  string   // name of the cluster; empty: Kubernetes; values override it
	Domain   string   // DNS suffix of services; empty: cluster.local; values override it
	// Hub is the registry of images; values override it. If neither names one, pods that give their proxy no whole image are refused.
	Hub string

	Mesh *meshconfig.MeshConfig // over its defaults; nil: these

	// The two texts of Istio's ConfigMap: YAML or JSON. Empty: the defaults.
	Config, Values Text
}

// Text is a text with its name in errors.
type Text struct {
	Name string
	Text []byte
}

// MaxText bounds a text of settings, in bytes: an API server keeps no more in a ConfigMap.
const MaxText = 1 << 20

const (
	policyEnabled  = "enabled"
	policyDisabled = "disabled"
)

// configuration is the ConfigMap's key "config".
type configuration struct {
	Policy               string                 `json:"policy"`
	DefaultTemplates     []string               `json:"defaultTemplates"`
	Aliases              map[string][]string    `json:"aliases"`
	Templates            map[string]string      `json:"templates"`
	AlwaysInjectSelector []metav1.LabelSelector `json:"alwaysInjectSelector"`
	NeverInjectSelector  []metav1.LabelSelector `json:"neverInjectSelector"`
	InjectedAnnotations  map[string]string      `json:"injectedAnnotations"`
}

// Injector injects with one version of its settings. It is immutable; many goroutines may use one.
type Injector struct {
	settings  Settings
	public    *meshconfig.MeshConfig // the mesh configuration as a Stranger sees it: without proxyMetadata
	config    configuration
	values    values.Values
	raw       map[string]any // the values as written, for custom templates
	always    []labels.Selector
	never     []labels.Selector
	templates map[string]*template.Template
}

// New reads the settings. The error lists everything that is wrong with them.
func New(s Settings) (*Injector, error) {
	s.Revision, s.System = cmp.Or(s.Revision, defaultRevision), cmp.Or(s.System, "istio-system")
	i := &Injector{settings: s, config: configuration{Policy: policyEnabled}, values: values.Default(s.Cluster, s.Domain)}
	i.values.Global.Hub = s.Hub
	if i.settings.Mesh == nil {
		i.settings.Mesh = &meshconfig.MeshConfig{}
	}
	if i.public = i.settings.Mesh; len(i.public.GetDefaultConfig().GetProxyMetadata()) > 0 {
		i.public = proto.CloneOf(i.public)
		i.public.DefaultConfig.ProxyMetadata = nil
	}
	_, err := read(s.Config, &i.config, true)
	raw, wrong := read(s.Values, &i.values, false)
	i.raw = raw
	if err := errors.Join(err, wrong); err != nil {
		return nil, err
	}
	err = i.configure()
	if i.config.DefaultTemplates == nil {
		i.config.DefaultTemplates = []string{sidecarTemplate}
	}
	return i, errors.Join(err, i.values.Check(s.Values.Name), i.checkTemplates())
}

// configure parses the templates and selectors of the configuration.
func (i *Injector) configure() error {
	var errs []error
	note := func(err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", cmp.Or(i.settings.Config.Name, "config"), err))
		}
	}
	if p := i.config.Policy; p != policyEnabled && p != policyDisabled {
		note(fmt.Errorf("policy: %s is neither enabled nor disabled", form.Quoted(p)))
	}
	var err error
	i.always, err = selectors("alwaysInjectSelector", i.config.AlwaysInjectSelector)
	note(err)
	i.never, err = selectors("neverInjectSelector", i.config.NeverInjectSelector)
	note(err)
	i.templates = map[string]*template.Template{}
	for _, name := range slices.Sorted(maps.Keys(i.config.Templates)) {
		t, err := language.Parse(name, i.config.Templates[name])
		note(err)
		i.templates[name] = t
	}
	return errors.Join(errs...)
}

// read parses a text over the current content of into, and returns its tree. With strict, unknown fields are errors.
func read(t Text, into any, strict bool) (map[string]any, error) {
	if len(t.Text) > MaxText {
		return nil, fmt.Errorf("%s: %d bytes of at most %d", t.Name, len(t.Text), MaxText)
	}
	if !utf8.Valid(t.Text) {
		return nil, fmt.Errorf("%s: the text is not UTF-8", t.Name)
	}
	doc := document.Document{File: t.Name, Line: 1, Text: t.Text}
	tree, bad := doc.Tree()
	if bad != nil {
		return nil, fmt.Errorf("%s:%d: %s; %s", t.Name, max(bad.Line, 1), bad.Message, cmp.Or(bad.Fix, "write YAML or JSON"))
	}
	if tree == nil {
		return nil, nil
	}
	m, ok := tree.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: the text is not a set of fields", t.Name)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	if strict {
		in.DisallowUnknownFields()
	}
	err = in.Decode(into)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		line := document.IndexLines(doc).Of(wrong.Field)
		return m, fmt.Errorf("%s:%d: %s: it is a %s; want %s", t.Name, line, wrong.Field, wrong.Value, kindOf(wrong))
	case err != nil:
		return m, fmt.Errorf("%s: %w", t.Name, err)
	}
	return m, nil
}

// kindOf names a Go type in words of JSON.
func kindOf(e *json.UnmarshalTypeError) string {
	switch name := e.Type.Kind().String(); name {
	case "map", "struct":
		return "a set of fields"
	case "slice":
		return "a list"
	case "int", "int32", "int64", "uint16":
		return "a whole number"
	case "bool":
		return "true or false"
	default:
		return "a " + name
	}
}
