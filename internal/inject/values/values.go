package values

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fairway/internal/inject/form"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"fairway"
)

// Values is the content of the ConfigMap's key of this name, in the structure of Istio's chart. Its other fields are for templates.
type Values struct {
	Global  globalValues  `json:"global"`
	Webhook webhookValues `json:"sidecarInjectorWebhook"`
	Pilot   struct {
		CNI struct {
			Enabled bool `json:"enabled"`
		} `json:"cni"`
		Env map[string]loose `json:"env"`
	} `json:"pilot"`
	CNI struct {
		Enabled bool `json:"enabled"`
	} `json:"istio_cni"`
}

type webhookValues struct {
	RewriteAppHTTPProbe       bool              `json:"rewriteAppHTTPProbe"`
	EnableNamespacesByDefault bool              `json:"enableNamespacesByDefault"`
	InjectedAnnotations       map[string]string `json:"injectedAnnotations"`
}

type globalValues struct {
	Hub              string      `json:"hub"`
	Tag              loose       `json:"tag"`
	Variant          string      `json:"variant"`
	ImagePullPolicy  string      `json:"imagePullPolicy"`
	ImagePullSecrets []string    `json:"imagePullSecrets"`
	Network          string      `json:"network"`
	MeshID           string      `json:"meshID"`
	CAAddress        string      `json:"caAddress"`
	Proxy            proxyValues `json:"proxy"`
	ProxyInit        struct {
		Image     string                      `json:"image"`
		Resources corev1.ResourceRequirements `json:"resources"`
	} `json:"proxy_init"`
	MultiCluster struct {
		ClusterName string `json:"clusterName"`
	} `json:"multiCluster"`
	SDS struct {
		Token struct {
			Audience string `json:"aud"`
		} `json:"token"`
	} `json:"sds"`
	Logging struct {
		Level string `json:"level"`
	} `json:"logging"`
}

type proxyValues struct {
	Image              string                      `json:"image"`
	ClusterDomain      string                      `json:"clusterDomain"`
	LogLevel           string                      `json:"logLevel"`
	ComponentLogLevel  string                      `json:"componentLogLevel"`
	Resources          corev1.ResourceRequirements `json:"resources"`
	StatusPort         loose                       `json:"statusPort"`
	IncludeIPRanges    string                      `json:"includeIPRanges"`
	ExcludeIPRanges    string                      `json:"excludeIPRanges"`
	IncludeOutbound    string                      `json:"includeOutboundPorts"`
	ExcludeOutbound    string                      `json:"excludeOutboundPorts"`
	IncludeInbound     string                      `json:"includeInboundPorts"`
	ExcludeInbound     string                      `json:"excludeInboundPorts"`
	ReadinessInitial   int32                       `json:"readinessInitialDelaySeconds"`
	ReadinessPeriod    int32                       `json:"readinessPeriodSeconds"`
	ReadinessThreshold int32                       `json:"readinessFailureThreshold"`
	StartupProbe       struct {
		Enabled          bool  `json:"enabled"`
		FailureThreshold int32 `json:"failureThreshold"`
	} `json:"startupProbe"`
	Lifecycle      *corev1.Lifecycle      `json:"lifecycle"`
	SeccompProfile *corev1.SeccompProfile `json:"seccompProfile"`
}

// loose is a text that may also be written as a number or a bool, as charts do.
type loose string

func (l *loose) UnmarshalJSON(raw []byte) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && (raw[0] == '{' || raw[0] == '[') {
		return fmt.Errorf("want a word or a number, not %.20s", raw)
	}
	if len(raw) == 0 || raw[0] != '"' {
		*l = loose(strings.TrimSuffix(string(raw), "null"))
		return nil
	}
	return json.Unmarshal(raw, (*string)(l))
}

// Default returns the values of a chart that sets none. An empty cluster or domain has a default too. The hub has none: a registry that
// the user did not name may have images of others under these names.
func Default(cluster, domain string) Values {
	var v Values
	g := &v.Global
	g.Tag, g.Proxy.Image = fairway.Release, "proxyv2"
	g.MultiCluster.ClusterName = cmp.Or(cluster, "Kubernetes")
	g.SDS.Token.Audience = "istio-ca"
	g.Proxy.ClusterDomain = cmp.Or(domain, "cluster.local")
	g.Proxy.LogLevel, g.Proxy.ComponentLogLevel, g.Logging.Level = "warning", "misc:error", "default:info"
	g.Proxy.IncludeIPRanges, g.Proxy.IncludeInbound = "*", "*"
	g.Proxy.ReadinessPeriod, g.Proxy.ReadinessThreshold = 15, 4
	g.Proxy.StartupProbe.Enabled, g.Proxy.StartupProbe.FailureThreshold = true, 600
	g.Proxy.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	g.Proxy.Resources = corev1.ResourceRequirements{
		Requests: Quantities("100m", "128Mi"),
		Limits:   Quantities("2", "1Gi"),
	}
	v.Webhook.RewriteAppHTTPProbe = true
	return v
}

// Quantities returns amounts of CPU and memory. It panics if one is not a quantity, so callers pass constants only.
func Quantities(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// Check returns an error for impossible values; name is the file or the key that they are from, for the message.
func (v *Values) Check(name string) error {
	var errs []error
	p := v.Global.Proxy
	for _, one := range []struct {
		field, value string
		check        func(string) error
	}{
		{"includeIPRanges", p.IncludeIPRanges, form.Networks(true)},
		{"excludeIPRanges", p.ExcludeIPRanges, form.Networks(false)},
		{"includeInboundPorts", p.IncludeInbound, form.Ports(true)},
		{"excludeInboundPorts", p.ExcludeInbound, form.Ports(false)},
		{"includeOutboundPorts", p.IncludeOutbound, form.Ports(false)},
		{"excludeOutboundPorts", p.ExcludeOutbound, form.Ports(false)},
		{"statusPort", string(p.StatusPort), form.Number(0, 65535)},
	} {
		if err := one.check(one.value); one.value != "" && err != nil {
			errs = append(errs, fmt.Errorf("%s: global.proxy.%s: %w", cmp.Or(name, "values"), one.field, err))
		}
	}
	if native := string(v.Pilot.Env["ENABLE_NATIVE_SIDECARS"]); native != "" {
		if _, err := strconv.ParseBool(native); err != nil {
			errs = append(errs, fmt.Errorf("%s: pilot.env.ENABLE_NATIVE_SIDECARS: %s is neither true nor false", name, form.Quoted(native)))
		}
	}
	return errors.Join(errs...)
}

// Native reports whether sidecars are native sidecars by default.
func (v *Values) Native() bool {
	on, err := strconv.ParseBool(string(v.Pilot.Env["ENABLE_NATIVE_SIDECARS"]))
	return err != nil || on
}

// NoHub is why Image has returned nothing.
const NoHub = "global.hub of the injector's values is empty, and no public registry has the image: write the registry that has yours " +
	"(--set global.hub=registry.example/mesh of pilotctl install and of kube-inject), or a whole image in the annotation " +
	"sidecar.istio.io/proxyImage"

// Image returns a whole reference, or completes a name with hub, tag and variant; "" if it is no whole reference and there is no hub.
func (v *Values) Image(name, variant string) string {
	if strings.Contains(name, "/") {
		return name
	}
	hub := strings.TrimSuffix(v.Global.Hub, "/")
	if hub == "" {
		return ""
	}
	out := hub + "/" + name
	if v.Global.Tag == "" {
		return out
	}
	out += ":" + string(v.Global.Tag)
	if variant != "" && variant != "default" && !strings.HasSuffix(string(v.Global.Tag), "-"+variant) {
		out += "-" + variant
	}
	return out
}
