package inject

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"istio.io/api/annotation"
	meshconfig "istio.io/api/mesh/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"fairway/internal/config"
	"fairway/internal/config/document"
	"fairway/internal/inject/form"
	"fairway/internal/printable"
)

// Bounds on what one pod's ProxyConfig may name.
const (
	mostMetadata    = 256
	longestMetadata = 32 << 10
)

// wishProxyConfig merges settings; each of these overrides the one before: the mesh's defaultConfig, ProxyConfig resources that reach many
// pods, the pod's annotation, ProxyConfig resources that select the pod (networking/v1beta1/proxy_config.proto). The agent reads the
// annotation too, and follows it while it runs; this result decides what is injected.
func (i *Injector) wishProxyConfig(n *notes, w *wishes, pod *corev1.Pod, r Request) {
	defaults := config.DefaultMeshConfig().GetDefaultConfig()
	var wide, last []*meshconfig.ProxyConfig
	if r.ProxyConfigs != nil {
		wide, last = r.ProxyConfigs(pod.Labels)
	}
	w.proxyConfig = proto.CloneOf(defaults)
	overlay(w.proxyConfig, i.meshFor(r).GetDefaultConfig())
	if w.proxyConfig.DiscoveryAddress == defaults.DiscoveryAddress {
		w.proxyConfig.DiscoveryAddress = "istiod." + i.settings.System + ".svc:15012"
	}
	for _, over := range wide {
		overlay(w.proxyConfig, over)
	}
	own, warning, err := proxyConfigOf(n.of[annotation.ProxyConfig.Name])
	n.wrong(annotation.ProxyConfig.Name, err)
	if warning != "" {
		w.warnings = append(w.warnings, warning)
	}
	overlay(w.proxyConfig, own)
	for _, over := range last {
		overlay(w.proxyConfig, over)
		w.proxyConfigOwn, err = ordered(over)
		n.wrong(annotation.ProxyConfig.Name, err)
	}
	w.proxyConfig.DiscoveryAddress = n.text(annotation.SidecarDiscoveryAddress, w.proxyConfig.DiscoveryAddress, hostPorts)
	n.wrong(annotation.ProxyConfig.Name, checkProxyConfig(w.proxyConfig))
	w.hold = w.proxyConfig.GetHoldApplicationUntilProxyStarts().GetValue()
	w.statusPort = i.statusPort(n, w.proxyConfig)
	w.proxyConfigRaw, err = proxyConfigText(w.proxyConfig, defaults)
	n.wrong(annotation.ProxyConfig.Name, err)
}

// meshFor returns the mesh configuration as a request may see it.
func (i *Injector) meshFor(r Request) *meshconfig.MeshConfig {
	if r.Untrusted {
		return i.public
	}
	return i.settings.Mesh
}

// Metadata reports whether the mesh configuration has proxyMetadata, which an Untrusted request does not get.
func (i *Injector) Metadata() bool {
	return i.public != i.settings.Mesh
}

// statusPort returns the port of the annotation, else of the ProxyConfig if it has one, else of the values.
func (i *Injector) statusPort(n *notes, c *meshconfig.ProxyConfig) int {
	port := int(c.GetStatusPort())
	if said := string(i.values.Global.Proxy.StatusPort); said != "" && port == statusPort {
		port, _ = strconv.Atoi(said)
	}
	return int(n.number(annotation.SidecarStatusPort, int32(port), 0, 65535))
}

// proxyConfigOf parses YAML of a ProxyConfig. It skips a field that this build does not know, with a warning, as the agent does, because a
// newer release may have written it.
func proxyConfigOf(value string) (*meshconfig.ProxyConfig, string, error) {
	out := &meshconfig.ProxyConfig{}
	tree, bad := document.Document{Line: 1, Text: []byte(value)}.Tree()
	if bad != nil {
		return out, "", fmt.Errorf("line %d: %s", max(bad.Line, 1), bad.Message)
	}
	if tree == nil {
		return out, "", nil
	}
	if _, ok := tree.(map[string]any); !ok {
		return out, "", errors.New("want the fields of a ProxyConfig, as holdApplicationUntilProxyStarts: true")
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		return out, "", err
	}
	strict := protojson.Unmarshal(raw, out)
	if strict == nil {
		return out, "", nil
	}
	out = &meshconfig.ProxyConfig{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, out); err != nil {
		return &meshconfig.ProxyConfig{}, "", errors.New(protoWords(err))
	}
	return out, "annotation " + annotation.ProxyConfig.Name + ": passed over: " + protoWords(strict), nil
}

var decodersNoise = regexp.MustCompile(`^proto: *(\(line \d+:\d+\): *)?`)

// protoWords returns the text of a protojson error without its prefix and its position in a text that no user wrote. It makes its spaces,
// which differ from build to build, plain ones.
func protoWords(err error) string {
	words := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	return printable.Text(decodersNoise.ReplaceAllString(words, ""), printable.Long)
}

func hostPorts(value string) error {
	for one := range strings.SplitSeq(value, ",") {
		if err := hostPort(strings.TrimSpace(one)); err != nil {
			return err
		}
	}
	return nil
}

func hostPort(value string) error {
	host, port, err := net.SplitHostPort(value)
	if err != nil || host == "" || form.Number(1, 65535)(port) != nil {
		return fmt.Errorf("%s is not host:port", form.Quoted(value))
	}
	return nil
}

// variableName is compiled once: every pod is checked.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// checkProxyConfig refuses values that the agent, or the API server, would refuse.
func checkProxyConfig(c *meshconfig.ProxyConfig) error {
	var errs []error
	if err := hostPorts(c.GetDiscoveryAddress()); err != nil {
		errs = append(errs, fmt.Errorf("discoveryAddress: %w", err))
	}
	if err := form.Number(0, 65535)(strconv.Itoa(int(c.GetStatusPort()))); err != nil {
		errs = append(errs, fmt.Errorf("statusPort: %w", err))
	}
	if p := c.GetConfigPath(); p != "" && (form.Plain(p) != nil || strings.ContainsAny(p, ":,") || path.Join("/", p) == "/") {
		errs = append(errs, fmt.Errorf("configPath: %s is not a folder of the proxy's: write it as ./etc/istio/proxy", form.Quoted(p)))
	}
	if len(c.GetProxyMetadata()) > mostMetadata {
		errs = append(errs, fmt.Errorf("proxyMetadata: %d variables of at most %d", len(c.GetProxyMetadata()), mostMetadata))
		return errors.Join(errs...)
	}
	for _, key := range slices.Sorted(maps.Keys(c.GetProxyMetadata())) {
		if len(key) > 256 || !variableName.MatchString(key) {
			errs = append(errs, fmt.Errorf("proxyMetadata: %s is not a name of a variable", form.Quoted(key)))
		}
		if value := c.GetProxyMetadata()[key]; len(value) > longestMetadata {
			errs = append(errs, fmt.Errorf("proxyMetadata: %s has %d bytes of at most %d", key, len(value), longestMetadata))
		}
	}
	return errors.Join(errs...)
}

// overlay replaces each field of base that over sets; variables of proxyMetadata are replaced one by one.
func overlay(base, over *meshconfig.ProxyConfig) {
	into := base.ProtoReflect()
	proto.CloneOf(over).ProtoReflect().Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if field.IsMap() {
			m := into.Mutable(field).Map()
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool { m.Set(k, v); return true })
			return true
		}
		into.Set(field, v)
		return true
	})
}

// proxyConfigText returns the ProxyConfig for the agent: the fields that differ from the defaults, and the address of the control plane.
func proxyConfigText(c, defaults *meshconfig.ProxyConfig) (string, error) {
	differs := proto.CloneOf(c)
	of, base := differs.ProtoReflect(), defaults.ProtoReflect()
	of.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if base.Has(field) && v.Equal(base.Get(field)) {
			of.Clear(field)
		}
		return true
	})
	differs.DiscoveryAddress = c.DiscoveryAddress
	return ordered(differs)
}

// ordered encodes a ProxyConfig as JSON with sorted names and no spaces: the same in every process.
func ordered(c *meshconfig.ProxyConfig) (string, error) {
	raw, err := protojson.Marshal(c)
	if err != nil {
		return "", err
	}
	var tree map[string]any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return "", err
	}
	raw, err = json.Marshal(tree)
	return string(raw), err
}
