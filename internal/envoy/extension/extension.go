package extension

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	httpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	networkwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	extensions "istio.io/api/extensions/v1alpha1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"fairway/internal/envoy"
	"fairway/internal/envoy/listener"
)

// Extension is one WasmPlugin or TrafficExtension. It is immutable.
type Extension struct {
	// Name is the name of the filter and of its configuration: EnvoyFilters, statistics and dashboards use it.
	Name     string
	Phase    listener.Phase
	Priority int32
	Network  bool // it sees connections, not requests
	FailOpen bool // without its configuration, traffic passes; otherwise it is refused
	Match    []Selector
	// Config is the filter's configuration; if a module must be fetched, without that module. Nil: the extension cannot run.
	Config *corev3.TypedExtensionConfig
	Module *Module // nil: the extension has no module
}

// Selector is traffic that passes an extension (TrafficSelector).
type Selector struct {
	Client, Server bool
	Ports          []uint32 // none: any
}

// Module says where a Wasm module is, and how it is fetched.
type Module struct {
	URL    string // with file, http, https or oci
	SHA256 string // of the module, or of an OCI image's manifest, in hex; empty: not checked
	Always bool   // fetch it again when Version changes, even if it is cached (imagePullPolicy)
	// Version is the object's version.
	Version string
	// Secret holds the credentials for the registry, a Docker configuration in JSON; empty: none.
	Secret string
}

// prefix of the names of filters; Istio's names are the same for WasmPlugins.
const prefix = "extensions.istio.io/"

// runtime is the machine that stock Envoy runs Wasm in.
const runtime = "envoy.wasm.runtime.v8"

// OfPlugin parses a WasmPlugin; version is the object's. An error is for the object's author, and about the returned field; then the
// returned extension has no configuration that can be sent.
func OfPlugin(namespace, name, version string, p *extensions.WasmPlugin) (*Extension, string, error) {
	e := &Extension{Name: prefix + "wasmplugin/" + namespace + "." + name, Priority: p.GetPriority().GetValue()}
	e.Phase = map[extensions.PluginPhase]listener.Phase{
		extensions.PluginPhase_AUTHN: listener.Authentication, extensions.PluginPhase_AUTHZ: listener.Authorization,
		extensions.PluginPhase_STATS: listener.Statistics, extensions.PluginPhase_UNSPECIFIED_PHASE: listener.Last,
	}[p.GetPhase()]
	for _, m := range p.GetMatch() {
		e.Match = append(e.Match, selector(m.GetMode(), m.GetPorts()))
	}
	field, err := e.wasm(namespace+"."+name, version, &extensions.WasmConfig{
		Url: p.GetUrl(), Sha256: p.GetSha256(), ImagePullPolicy: p.GetImagePullPolicy(), PluginConfig: p.GetPluginConfig(),
		PluginName: p.GetPluginName(), FailStrategy: p.GetFailStrategy(), VmConfig: p.GetVmConfig(), Type: p.GetType(),
	})
	return e, "spec." + field, err
}

// OfTraffic parses a TrafficExtension.
func OfTraffic(namespace, name, version string, t *extensions.TrafficExtension) (*Extension, string, error) {
	e := &Extension{Name: prefix + "trafficextension/" + namespace + "." + name, Priority: t.GetPriority().GetValue()}
	e.Phase = map[extensions.TrafficExtension_ExecutionPhase]listener.Phase{
		extensions.TrafficExtension_AUTHN: listener.Authentication, extensions.TrafficExtension_AUTHZ: listener.Authorization,
		extensions.TrafficExtension_STATS: listener.Statistics, extensions.TrafficExtension_UNSPECIFIED: listener.Last,
	}[t.GetPhase()]
	for _, m := range t.GetMatch() {
		e.Match = append(e.Match, selector(m.GetMode(), m.GetPorts()))
	}
	if lua := t.GetLua(); lua != nil {
		return e, "spec.lua.inlineCode", e.pack(&luav3.Lua{DefaultSourceCode: &corev3.DataSource{
			Specifier: &corev3.DataSource_InlineString{InlineString: lua.GetInlineCode()},
		}})
	}
	field, err := e.wasm(namespace+"."+name, version, t.GetWasm())
	return e, "spec.wasm." + field, err
}

func selector(mode typev1beta1.WorkloadMode, ports []*typev1beta1.PortSelector) Selector {
	s := Selector{Client: mode != typev1beta1.WorkloadMode_SERVER, Server: mode != typev1beta1.WorkloadMode_CLIENT}
	for _, p := range ports {
		s.Ports = append(s.Ports, p.GetNumber())
	}
	return s
}

// Passes reports whether traffic passes the extension: traffic that a workload or a gateway sends to a port, or serves at a port. Port 0
// means an undeclared port.
func (e *Extension) Passes(serves bool, port uint32) bool {
	if len(e.Match) == 0 {
		return true
	}
	return slices.ContainsFunc(e.Match, func(s Selector) bool {
		return (serves && s.Server || !serves && s.Client) && (len(s.Ports) == 0 || slices.Contains(s.Ports, port))
	})
}

// identifier matches the name of a variable (EnvVar.name: "Must be a C_IDENTIFIER").
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// wasm parses the settings of a module. field is the field that an error is about.
func (e *Extension) wasm(name, version string, w *extensions.WasmConfig) (field string, err error) {
	e.Network = w.GetType() == extensions.PluginType_NETWORK
	e.FailOpen = w.GetFailStrategy() == extensions.FailStrategy_FAIL_OPEN
	if e.Module, err = module(w, version); err != nil {
		return "url", err
	}
	config := &wasmv3.PluginConfig{
		Name: name, RootId: w.GetPluginName(),
		FailurePolicy: map[extensions.FailStrategy]wasmv3.FailurePolicy{
			extensions.FailStrategy_FAIL_OPEN:   wasmv3.FailurePolicy_FAIL_OPEN,
			extensions.FailStrategy_FAIL_RELOAD: wasmv3.FailurePolicy_FAIL_RELOAD,
			extensions.FailStrategy_FAIL_CLOSE:  wasmv3.FailurePolicy_FAIL_CLOSED,
		}[w.GetFailStrategy()],
	}
	if w.GetPluginConfig() != nil {
		if config.Configuration, err = text(w.GetPluginConfig()); err != nil {
			return "pluginConfig", err
		}
	}
	vm := &wasmv3.VmConfig{Runtime: runtime}
	for i, v := range w.GetVmConfig().GetEnv() {
		if !identifier.MatchString(v.GetName()) {
			return fmt.Sprintf("vmConfig.env[%d].name", i), fmt.Errorf("%q is not a name of a variable: letters, digits and _", v.GetName())
		}
		if vm.EnvironmentVariables == nil {
			vm.EnvironmentVariables = &wasmv3.EnvironmentVariables{KeyValues: map[string]string{}}
		}
		if env := vm.EnvironmentVariables; v.GetValueFrom() == extensions.EnvValueSource_HOST {
			env.HostEnvKeys = append(env.HostEnvKeys, v.GetName())
		} else {
			env.KeyValues[v.GetName()] = v.GetValue()
		}
	}
	config.Vm = &wasmv3.PluginConfig_VmConfig{VmConfig: vm}
	if e.Network {
		return "pluginConfig", e.pack(&networkwasmv3.Wasm{Config: config})
	}
	return "pluginConfig", e.pack(&httpwasmv3.Wasm{Config: config})
}

// text returns the configuration of a module: JSON with its fields in order.
func text(s *structpb.Struct) (*anypb.Any, error) {
	out, err := json.Marshal(s.AsMap())
	if err != nil {
		return nil, err
	}
	return envoy.Any(wrapperspb.String(string(out))), nil
}

func (e *Extension) pack(m proto.Message) error {
	e.Config = &corev3.TypedExtensionConfig{Name: e.Name, TypedConfig: envoy.Any(m)}
	return envoy.Encode(e.Config).Err
}

// module parses the fields that say where a module is (WasmPlugin.url, sha256, image_pull_policy).
func module(w *extensions.WasmConfig, version string) (*Module, error) {
	from := w.GetUrl()
	if !strings.Contains(from, "://") {
		from = "oci://" + from
	}
	u, err := url.Parse(from)
	if err != nil {
		return nil, err
	}
	if u.User != nil {
		return nil, fmt.Errorf("it holds a password: name a Secret by imagePullSecret instead")
	}
	m := &Module{URL: from, SHA256: w.GetSha256(), Version: version}
	_, digest, pinned := strings.Cut(u.Path, "@sha256:")
	if pinned && u.Scheme == "oci" {
		if m.SHA256 != "" && m.SHA256 != digest {
			return nil, fmt.Errorf("it says @sha256:%s, and sha256 says %s", digest, m.SHA256)
		}
		m.SHA256 = digest
	}
	switch w.GetImagePullPolicy() {
	case extensions.PullPolicy_Always:
		m.Always = true
	case extensions.PullPolicy_UNSPECIFIED_POLICY:
		m.Always = u.Scheme == "oci" && latest(u.Path)
	}
	if m.SHA256 != "" { // it cannot change
		m.Always = false
	}
	if !m.Always {
		m.Version = ""
	}
	return m, nil
}

// latest reports whether an image has the tag latest, or no tag.
func latest(path string) bool {
	tag := path[strings.LastIndexByte(path, '/')+1:]
	_, tag, _ = strings.Cut(tag, ":")
	return cmp.Or(tag, "latest") == "latest"
}

// Local reports whether Envoy alone can run the extension: there is nothing to fetch, and nothing to verify.
func (e *Extension) Local() bool {
	return e.Module == nil || e.Module.SHA256 == "" && strings.HasPrefix(e.Module.URL, "file://")
}

// Resource returns the extension's configuration for Envoys that run it alone (Local).
func (e *Extension) Resource() *envoy.Encoded {
	if e.Module == nil {
		return envoy.Encode(e.Config)
	}
	out, err := WithModule(e.Config, strings.TrimPrefix(e.Module.URL, "file://"))
	if err != nil {
		return &envoy.Encoded{Err: err}
	}
	return envoy.Encode(out)
}

// WithModule returns a configuration of a Wasm filter with its module in a file.
func WithModule(config *corev3.TypedExtensionConfig, path string) (*corev3.TypedExtensionConfig, error) {
	m, err := config.GetTypedConfig().UnmarshalNew()
	if err != nil {
		return nil, err
	}
	w, ok := m.(interface{ GetConfig() *wasmv3.PluginConfig })
	if !ok || w.GetConfig().GetVmConfig() == nil {
		return nil, fmt.Errorf("%s runs no module", config.GetTypedConfig().GetTypeUrl())
	}
	w.GetConfig().GetVmConfig().Code = &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Local{Local: &corev3.DataSource{
		Specifier: &corev3.DataSource_Filename{Filename: path},
	}}}
	return &corev3.TypedExtensionConfig{Name: config.GetName(), TypedConfig: envoy.Any(m)}, nil
}

// Compare orders extensions by phase, then those of higher priority first.
func Compare(a, b *Extension) int {
	return cmp.Or(cmp.Compare(a.Phase, b.Phase), cmp.Compare(b.Priority, a.Priority))
}
