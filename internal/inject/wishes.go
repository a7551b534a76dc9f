package inject

import (
	"cmp"
	"encoding/json"
	"errors"
	"fairway/internal/inject/edit"
	"fairway/internal/inject/form"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"istio.io/api/annotation"
	meshconfig "istio.io/api/mesh/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// wishes are the settings of one pod's proxy: those of the pod over those of the values.
type wishes struct {
	templates      []string
	native         bool
	hold           bool
	mode           string // REDIRECT, TPROXY, NONE
	image          string
	resources      corev1.ResourceRequirements
	statusPort     int // 0: no status, so no probes through the agent
	proxyLog       string
	componentLog   string
	agentLog       string
	readiness      probeTimes
	bootstrap      string // name of a ConfigMap
	rewriteProbes  bool
	mergeMetrics   bool
	capture        capture
	volumes        []any
	mounts         []any
	proxyConfig    *meshconfig.ProxyConfig // all of it, over the mesh's
	proxyConfigRaw string                  // PROXY_CONFIG
	proxyConfigOwn string                  // the part that overrides the annotation, which the agent reads again
	warnings       []string
}

// capture selects the traffic that goes through the proxy, in the words of the agent's flags.
type capture struct {
	inPorts, inPortsExclude, outPorts, outPortsExclude, networks, networksExclude string
	interfacesExclude, virtualInterfaces                                          string
}

type probeTimes struct{ initial, period, threshold int32 }

// notes reads annotations and collects their errors.
type notes struct {
	of   map[string]string
	errs []error
}

func (n *notes) wrong(name string, err error) {
	if err != nil {
		n.errs = append(n.errs, refused("annotation "+name, "%w", err))
	}
}

// text returns the checked value of an annotation; otherwise, if the annotation is missing. The value may be empty.
func (n *notes) text(a annotation.Instance, otherwise string, check func(string) error) string {
	value, there := n.of[a.Name]
	if !there {
		return otherwise
	}
	if check != nil {
		n.wrong(a.Name, check(value))
	}
	return value
}

func (n *notes) number(a annotation.Instance, otherwise int32, least, most int) int32 {
	value, err := strconv.ParseInt(n.text(a, strconv.Itoa(int(otherwise)), form.Number(least, most)), 10, 32)
	if err != nil {
		return otherwise // reported already
	}
	return int32(value)
}

func (n *notes) yes(a annotation.Instance, otherwise bool) bool {
	value, err := strconv.ParseBool(n.text(a, strconv.FormatBool(otherwise), form.Truth))
	return err == nil && value
}

// wish reads a pod's labels and annotations. The error lists everything that is wrong.
func (i *Injector) wish(pod *corev1.Pod, r Request) (*wishes, error) {
	n := &notes{of: pod.Annotations}
	v := i.values.Global.Proxy
	w := &wishes{
		native:        n.yes(annotation.SidecarNativeSidecar, i.values.Native()),
		proxyLog:      n.text(annotation.SidecarLogLevel, v.LogLevel, form.Plain),
		componentLog:  n.text(annotation.SidecarComponentLogLevel, v.ComponentLogLevel, form.Plain),
		agentLog:      n.text(annotation.SidecarAgentLogLevel, i.values.Global.Logging.Level, form.Plain),
		bootstrap:     n.text(annotation.SidecarBootstrapOverride, "", configMapName),
		rewriteProbes: n.yes(annotation.SidecarRewriteAppHTTPProbers, i.values.Webhook.RewriteAppHTTPProbe),
		readiness: probeTimes{
			initial:   n.number(annotation.SidecarStatusReadinessInitialDelaySeconds, v.ReadinessInitial, 0, 3600),
			period:    n.number(annotation.SidecarStatusReadinessPeriodSeconds, v.ReadinessPeriod, 1, 3600),
			threshold: n.number(annotation.SidecarStatusReadinessFailureThreshold, v.ReadinessThreshold, 1, 10000),
		},
		volumes: n.volumes(annotation.SidecarUserVolume),
		mounts:  n.volumes(annotation.SidecarUserVolumeMount),
	}
	w.templates = i.wishTemplates(n)
	i.wishProxyConfig(n, w, pod, r)
	i.wishCapture(n, w)
	if w.mode == "TPROXY" && slices.Contains(w.templates, "sidecar") {
		n.errs = append(n.errs, rootForTransparent(pod))
	}
	i.wishResources(n, w)
	merge := i.settings.Mesh.GetEnablePrometheusMerge()
	w.mergeMetrics = n.yes(annotation.PrometheusMergeMetrics, merge == nil || merge.GetValue()) && w.statusPort != 0
	w.rewriteProbes = w.rewriteProbes && w.statusPort != 0
	variant := n.text(annotation.SidecarProxyImageType, cmp.Or(w.proxyConfig.GetImage().GetImageType(), i.values.Global.Variant), nil)
	w.image = i.values.Image(n.text(annotation.SidecarProxyImage, v.Image, form.Plain), variant)
	n.wrong(annotation.SidecarProxyImageType.Name, form.Plain(cmp.Or(variant, "default")))
	return w, errors.Join(n.errs...)
}

// rootForTransparent refuses a proxy that does not run as root, because only root can hand the capability for transparent sockets on to
// Envoy.
func rootForTransparent(pod *corev1.Pod) error {
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		if c.Name == ProxyContainer && c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil && *c.SecurityContext.RunAsUser != 0 {
			return refused("container "+ProxyContainer+", securityContext.runAsUser",
				"interception mode TPROXY needs user 0, not %d: leave it out, or use mode REDIRECT", *c.SecurityContext.RunAsUser)
		}
	}
	return nil
}

func configMapName(value string) error {
	if msgs := validation.IsDNS1123Subdomain(value); len(msgs) > 0 {
		return fmt.Errorf("%s is not a name of a ConfigMap: %s", form.Quoted(value), msgs[0])
	}
	return nil
}

// wishTemplates returns the names of templates, with aliases resolved.
func (i *Injector) wishTemplates(n *notes) []string {
	asked := i.config.DefaultTemplates
	if value := n.of[annotation.InjectTemplates.Name]; value != "" {
		asked = strings.Split(value, ",")
	}
	var out []string
	for _, name := range asked {
		name = strings.TrimSpace(name)
		for _, one := range i.aliased(name) {
			if !i.knows(one) {
				n.wrong(annotation.InjectTemplates.Name, fmt.Errorf("there is no template %s; there are %s", form.Quoted(one), i.known()))
			}
			if !slices.Contains(out, one) {
				out = append(out, one)
			}
		}
	}
	return out
}

func (i *Injector) wishCapture(n *notes, w *wishes) {
	v := i.values.Global.Proxy
	modes := form.OneOf("REDIRECT", "TPROXY", "NONE")
	w.mode = n.text(annotation.SidecarInterceptionMode, w.proxyConfig.GetInterceptionMode().String(), modes)
	w.capture = capture{
		inPorts:           n.text(annotation.SidecarTrafficIncludeInboundPorts, v.IncludeInbound, form.Ports(true)),
		inPortsExclude:    n.text(annotation.SidecarTrafficExcludeInboundPorts, v.ExcludeInbound, form.Ports(false)),
		outPorts:          n.text(annotation.SidecarTrafficIncludeOutboundPorts, v.IncludeOutbound, form.Ports(false)),
		outPortsExclude:   n.text(annotation.SidecarTrafficExcludeOutboundPorts, v.ExcludeOutbound, form.Ports(false)),
		networks:          n.text(annotation.SidecarTrafficIncludeOutboundIPRanges, v.IncludeIPRanges, form.Networks(true)),
		networksExclude:   n.text(annotation.SidecarTrafficExcludeOutboundIPRanges, v.ExcludeIPRanges, form.Networks(false)),
		interfacesExclude: n.text(annotation.SidecarTrafficExcludeInterfaces, "", form.Interfaces),
		virtualInterfaces: n.text(annotation.IoIstioRerouteVirtualInterfaces,
			n.text(annotation.SidecarTrafficKubevirtInterfaces, "", form.Interfaces), form.Interfaces),
	}
}

// wishResources: if a pod has any annotation of resources, all resources of the values are ignored, as with Istio.
func (i *Injector) wishResources(n *notes, w *wishes) {
	asked := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	for _, one := range []struct {
		of   annotation.Instance
		to   corev1.ResourceList
		name corev1.ResourceName
	}{
		{annotation.SidecarProxyCPU, asked.Requests, corev1.ResourceCPU},
		{annotation.SidecarProxyMemory, asked.Requests, corev1.ResourceMemory},
		{annotation.SidecarProxyCPULimit, asked.Limits, corev1.ResourceCPU},
		{annotation.SidecarProxyMemoryLimit, asked.Limits, corev1.ResourceMemory},
	} {
		value := n.of[one.of.Name]
		if value == "" {
			continue
		}
		q, err := quantity(value)
		n.wrong(one.of.Name, err)
		one.to[one.name] = q
	}
	w.resources = i.values.Global.Proxy.Resources
	if len(asked.Requests)+len(asked.Limits) > 0 {
		w.resources = asked
	}
	for _, name := range slices.Sorted(maps.Keys(w.resources.Requests)) {
		limit, limited := w.resources.Limits[name]
		if request := w.resources.Requests[name]; limited && request.Cmp(limit) > 0 {
			n.wrong(annotation.SidecarProxyCPU.Name+" and its siblings",
				fmt.Errorf("the proxy requests %s of %s, which is more than its limit, %s", request.String(), name, limit.String()))
		}
	}
}

// quantity parses an amount; the words that API servers take have at most some twenty bytes.
func quantity(value string) (resource.Quantity, error) {
	if len(value) > 64 {
		return resource.Quantity{}, errors.New("want an amount as 100m or 128Mi")
	}
	q, err := resource.ParseQuantity(value)
	if err != nil || q.Sign() < 0 {
		return resource.Quantity{}, fmt.Errorf("%s is not an amount: write it as 100m or 128Mi", form.Quoted(value))
	}
	return q, nil
}

// volumes parses a JSON list of volumes, or of mounts, or an object of them by name.
func (n *notes) volumes(a annotation.Instance) []any {
	value := n.of[a.Name]
	if value == "" {
		return nil
	}
	var items []map[string]any
	if json.Unmarshal([]byte(value), &items) != nil {
		var byName map[string]map[string]any
		if err := json.Unmarshal([]byte(value), &byName); err != nil {
			n.wrong(a.Name, errors.New(`want a JSON list, as [{"name": "cache", "emptyDir": {}}], or an object of them by name`))
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(byName)) {
			if item := byName[name]; item != nil {
				item["name"] = name
				items = append(items, item)
			}
		}
	}
	out := make([]any, 0, len(items))
	for _, item := range items {
		if edit.Text(item, "name") == "" {
			n.wrong(a.Name, errors.New("an item has no name"))
		}
		out = append(out, edit.Whole(item))
	}
	return out
}
