package inject

import (
	"cmp"
	"fairway/internal/inject/values"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// surroundings are the input of the built-in templates.
type surroundings struct {
	pod    *corev1.Pod // as the user wrote it
	wish   *wishes
	owner  Owner
	values *values.Values
	system string
	mesh   *meshconfig.MeshConfig
	tree   map[string]any // the pod

	annotations map[string]string // annotations of the configuration for every injected pod
}

// configDir returns the folder that the agent writes to; the container's working folder is /.
func (s surroundings) configDir() string {
	return path.Join("/", cmp.Or(s.wish.proxyConfig.GetConfigPath(), dirConfig))
}

// The folders that the agent reads (internal/agent).
const (
	dirConfig    = "/etc/istio/proxy"
	dirPodInfo   = "/etc/istio/pod"
	dirToken     = "/var/run/secrets/tokens"
	dirRoots     = "/var/run/secrets/istio"
	dirBootstrap = "/etc/istio/custom-bootstrap"
)

// overlayPod is the result of a built-in template, which is merged over a pod.
type overlayPod struct {
	labels, annotations map[string]string
	spec                corev1.PodSpec
}

// sidecar returns the result of the template of this name.
func (s surroundings) sidecar() overlayPod {
	c := s.proxy("sidecar")
	c.ReadinessProbe, c.StartupProbe, c.Lifecycle = s.readiness(), s.startup(), s.lifecycle()
	if s.wish.mode == "TPROXY" {
		// A transparent socket needs the capability, which only root hands on to Envoy; the rules identify the proxy by its group.
		c.SecurityContext.RunAsUser, c.SecurityContext.RunAsNonRoot = new(int64(0)), new(false)
		c.SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
	}
	out := s.around(c)
	out.labels[tlsMode] = "istio"
	if s.wish.native {
		c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		out.spec.Containers, out.spec.InitContainers = nil, []corev1.Container{c}
	}
	if s.wish.mode != "NONE" && !s.values.Pilot.CNI.Enabled && !s.values.CNI.Enabled {
		out.spec.InitContainers = append(out.spec.InitContainers, s.interception())
	}
	return out
}

// gateway returns the result of the template of this name: the pod's only workload is its proxy, which intercepts nothing.
func (s surroundings) gateway() overlayPod {
	c := s.proxy("router")
	c.ReadinessProbe, c.StartupProbe = s.readiness(), s.startup()
	out := s.around(c)
	out.spec.SecurityContext = s.lowPorts()
	return out
}

// unprivilegedPorts is the kernel's setting of the first port that a process without rights may bind.
const unprivilegedPorts = "net.ipv4.ip_unprivileged_port_start"

// lowPorts lets the proxy bind ports below 1024, as gateways do, without being root; nil if the pod decides that itself. A pod in its
// node's network must not change it.
func (s surroundings) lowPorts() *corev1.PodSecurityContext {
	var own []corev1.Sysctl
	if c := s.pod.Spec.SecurityContext; c != nil {
		own = c.Sysctls
	}
	if s.pod.Spec.HostNetwork || slices.ContainsFunc(own, func(c corev1.Sysctl) bool { return c.Name == unprivilegedPorts }) {
		return nil
	}
	return &corev1.PodSecurityContext{Sysctls: append(slices.Clone(own), corev1.Sysctl{Name: unprivilegedPorts, Value: "0"})}
}

// around returns the proxy's container together with its volumes, pull secrets, labels and annotations.
func (s surroundings) around(c corev1.Container) overlayPod {
	out := overlayPod{labels: s.labels(), annotations: map[string]string{}}
	out.spec.Containers = []corev1.Container{c}
	out.spec.Volumes = s.podVolumes()
	for _, name := range s.values.Global.ImagePullSecrets {
		out.spec.ImagePullSecrets = append(out.spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	for _, key := range []string{defaultContainer, defaultLogsContainer} {
		if name := firstContainer(s.pod); name != "" && s.pod.Annotations[key] == "" {
			out.annotations[key] = name
		}
	}
	maps.Copy(out.annotations, s.values.Webhook.InjectedAnnotations)
	maps.Copy(out.annotations, s.annotations)
	return out
}

// firstContainer returns the user's first container, so that kubectl shows it and not the proxy; empty: there is none.
func firstContainer(pod *corev1.Pod) string {
	for _, c := range pod.Spec.Containers {
		if c.Name != ProxyContainer {
			return c.Name
		}
	}
	return ""
}

// labels returns the workload's canonical service and revision, from its own labels if it has them.
func (s surroundings) labels() map[string]string {
	own := s.pod.Labels
	first := func(names ...string) string {
		for _, n := range names {
			if own[n] != "" {
				return own[n]
			}
		}
		return ""
	}
	name := cmp.Or(first(canonicalName, "app.kubernetes.io/name", "app"), s.owner.Name)
	out := map[string]string{canonicalRevision: cmp.Or(first(canonicalRevision, "app.kubernetes.io/version", "version"), "latest")}
	if name != "" {
		out[canonicalName] = labelValue(name)
	}
	return out
}

// labelValue shortens an object's name, which may be longer than a label's value.
func labelValue(name string) string {
	const most = 63
	if len(name) <= most {
		return name
	}
	for name = name[:most]; name != "" && (name[len(name)-1] == '-' || name[len(name)-1] == '.'); {
		name = name[:len(name)-1]
	}
	return name
}

// proxy returns the container of the agent and its Envoy.
func (s surroundings) proxy(role string) corev1.Container {
	w := s.wish
	args := []string{
		"proxy", role,
		"--domain", "$(POD_NAMESPACE).svc." + s.values.Global.Proxy.ClusterDomain,
		"--proxyLogLevel=" + w.proxyLog,
		"--log_output_level=" + w.agentLog,
	}
	if w.componentLog != "" {
		args = append(args, "--proxyComponentLogLevel="+w.componentLog)
	}
	if w.statusPort != statusPort {
		args = append(args, "--statusPort="+strconv.Itoa(w.statusPort))
	}
	return corev1.Container{
		Name:            ProxyContainer,
		Image:           w.image,
		ImagePullPolicy: corev1.PullPolicy(s.values.Global.ImagePullPolicy),
		Args:            args,
		Env:             s.variables(role),
		Ports:           []corev1.ContainerPort{{Name: "http-envoy-prom", ContainerPort: metricsPort, Protocol: corev1.ProtocolTCP}},
		Resources:       w.resources,
		VolumeMounts:    s.volumeMounts(),
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			Privileged:               new(false),
			ReadOnlyRootFilesystem:   new(true),
			RunAsNonRoot:             new(true),
			RunAsUser:                new(proxyUID),
			RunAsGroup:               new(proxyUID),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile:           s.values.Global.Proxy.SeccompProfile,
		},
	}
}

// variables returns the variables that the agent reads (internal/agent/settings, internal/agent/secrets).
func (s surroundings) variables(role string) []corev1.EnvVar {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	out := []corev1.EnvVar{
		field("POD_NAME", "metadata.name"),
		field("POD_NAMESPACE", "metadata.namespace"),
		field("INSTANCE_IP", "status.podIP"),
		field("HOST_IP", "status.hostIP"),
		field("SERVICE_ACCOUNT", "spec.serviceAccountName"),
		field("ISTIO_META_NODE_NAME", "spec.nodeName"),
	}
	g := s.values.Global
	bootstrap, mode := "", s.wish.mode
	if role != "sidecar" {
		mode = "" // nothing is intercepted
	}
	if s.wish.bootstrap != "" {
		bootstrap = dirBootstrap + "/custom_bootstrap.json"
	}
	for _, v := range [...][2]string{
		{"PROXY_CONFIG", s.wish.proxyConfigRaw},
		{"FAIRWAY_PROXY_CONFIG", s.wish.proxyConfigOwn},
		{"ISTIO_META_CLUSTER_ID", g.MultiCluster.ClusterName},
		{"ISTIO_META_INTERCEPTION_MODE", mode},
		{"ISTIO_META_WORKLOAD_NAME", s.owner.Name},
		{"ISTIO_META_NETWORK", cmp.Or(s.pod.Labels[networkLabel], g.Network)},
		{"ISTIO_META_MESH_ID", cmp.Or(g.MeshID, s.wish.proxyConfig.GetMeshId())},
		{"TRUST_DOMAIN", s.mesh.GetTrustDomain()},
		{"CA_ADDR", g.CAAddress},
		{"ISTIO_BOOTSTRAP_OVERRIDE", bootstrap},
	} {
		if v[1] != "" {
			out = append(out, corev1.EnvVar{Name: v[0], Value: literal(v[1])})
		}
	}
	return append(out, s.metadata(out)...)
}

// literal escapes text that looks like $(NAME), so that the kubelet does not replace it by a variable.
func literal(value string) string {
	out := make([]byte, 0, len(value))
	for i := range len(value) {
		if value[i] == '$' {
			out = append(out, '$')
		}
		out = append(out, value[i])
	}
	return string(out)
}

// metadata returns the variables of proxyMetadata, except those that are set already.
func (s surroundings) metadata(there []corev1.EnvVar) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, name := range slices.Sorted(maps.Keys(s.wish.proxyConfig.GetProxyMetadata())) {
		if !slices.ContainsFunc(there, func(v corev1.EnvVar) bool { return v.Name == name }) {
			out = append(out, corev1.EnvVar{Name: name, Value: literal(s.wish.proxyConfig.GetProxyMetadata()[name])})
		}
	}
	return out
}

func (s surroundings) volumeMounts() []corev1.VolumeMount {
	out := []corev1.VolumeMount{
		{Name: volumeConfig, MountPath: s.configDir()},
		{Name: volumePodInfo, MountPath: dirPodInfo, ReadOnly: true},
		{Name: volumeToken, MountPath: dirToken, ReadOnly: true},
		{Name: volumeRoots, MountPath: dirRoots, ReadOnly: true},
	}
	if s.wish.bootstrap != "" {
		out = append(out, corev1.VolumeMount{Name: volumeBootstrap, MountPath: dirBootstrap, ReadOnly: true})
	}
	return out
}

// tokenLife is how long a projected token is valid, in seconds; the kubelet replaces it earlier.
const tokenLife = 43200

func (s surroundings) podVolumes() []corev1.Volume {
	field := func(path, of string) corev1.DownwardAPIVolumeFile {
		return corev1.DownwardAPIVolumeFile{Path: path, FieldRef: &corev1.ObjectFieldSelector{FieldPath: of}}
	}
	configMap := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
	}
	out := []corev1.Volume{
		{Name: volumeConfig, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		{Name: volumePodInfo, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{field("labels", "metadata.labels"), field("annotations", "metadata.annotations")},
		}}},
		{Name: volumeToken, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
				Audience: s.values.Global.SDS.Token.Audience, ExpirationSeconds: new(int64(tokenLife)), Path: "istio-token",
			}}},
		}}},
		{Name: volumeRoots, VolumeSource: configMap(rootsConfigMap)},
	}
	if s.wish.bootstrap != "" {
		out = append(out, corev1.Volume{Name: volumeBootstrap, VolumeSource: configMap(s.wish.bootstrap)})
	}
	return out
}

func readyProbe() corev1.Probe {
	return corev1.Probe{TimeoutSeconds: 3, ProbeHandler: corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: readyPath, Port: intstr.FromInt32(readyPort)},
	}}
}

// readiness returns the readiness probe; nil without a status port: then nothing answers on port 15021 either.
func (s surroundings) readiness() *corev1.Probe {
	if s.wish.statusPort == 0 {
		return nil
	}
	p, t := readyProbe(), s.wish.readiness
	p.InitialDelaySeconds, p.PeriodSeconds, p.FailureThreshold = t.initial, t.period, t.threshold
	return &p
}

// startup holds back the containers after a native sidecar, or the readiness of the pod, until the proxy is ready.
func (s surroundings) startup() *corev1.Probe {
	v := s.values.Global.Proxy.StartupProbe
	if s.wish.statusPort == 0 || !v.Enabled {
		return nil
	}
	p := readyProbe()
	p.PeriodSeconds, p.FailureThreshold = 1, v.FailureThreshold
	return &p
}

// lifecycle returns the proxy's hooks. A native sidecar gets the command to drain when the pod begins to end, and is stopped after the
// application. An ordinary sidecar is stopped together with the application, and drains by itself.
func (s surroundings) lifecycle() *corev1.Lifecycle {
	if own := s.values.Global.Proxy.Lifecycle; own != nil {
		return own
	}
	run := func(command ...string) *corev1.LifecycleHandler {
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: append([]string{"pilot-agent"}, command...)}}
	}
	if s.wish.statusPort == 0 {
		return nil
	}
	out := &corev1.Lifecycle{}
	if s.wish.native {
		command := []string{"request", "--debug-port=" + strconv.Itoa(s.wish.statusPort), "POST", "drain"}
		if s.configDir() != dirConfig { // where the agent's token is
			command = slices.Insert(command, 1, "--configPath="+s.configDir())
		}
		out.PreStop = run(command...)
	}
	if s.wish.hold && (!s.wish.native || s.startup() == nil) {
		out.PostStart = run("wait")
	}
	if *out == (corev1.Lifecycle{}) {
		return nil
	}
	return out
}

// intercepts reports whether a template of the pod makes the kernel redirect its connections to the proxy.
func (s surroundings) intercepts() bool {
	return s.wish.mode != "NONE" && slices.Contains(s.wish.templates, sidecarTemplate)
}

// leastDrain is the agent's shortest drain; internal/agent/settings has it.
const leastDrain = 5 * time.Second

// graceWarning warns if the proxy may need longer to end than the pod's termination grace period.
func (s surroundings) graceWarning() []string {
	grace := 30 * time.Second
	if g := s.pod.Spec.TerminationGracePeriodSeconds; g != nil {
		grace = time.Duration(*g) * time.Second
	}
	takes := s.wish.proxyConfig.GetTerminationDrainDuration().AsDuration() + leastDrain
	if takes <= grace {
		return nil
	}
	return []string{fmt.Sprintf("spec.terminationGracePeriodSeconds: the pod is killed after %s, and its proxy may drain for %s "+
		"(terminationDrainDuration and %s for its peers to notice)", grace, takes, leastDrain)}
}
