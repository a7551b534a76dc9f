package settings

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/agent/cpu"
	"fairway/internal/agent/health"
	"fairway/internal/agent/planes"
	"fairway/internal/envoy/bootstrap"
	"fairway/internal/mesh"
)

// Flags are the command line's; if one has its zero value, environment and files decide.
type Flags struct {
	Type              string // "sidecar" or "router"
	Domain            string
	ServiceCluster    string
	MeshConfig        string // file
	ProxyConfigs      string // file of ProxyConfig resources
	DiscoveryAddress  string
	Envoy             string
	ConfigPath        string
	Locality          string // region/zone/subzone
	ProxyLogLevel     string
	ComponentLogLevel string
	AdminPort         uint16
	StatusPort        int // -1: unset; 0: do not serve
	ReadyPort         int // likewise
	PrometheusPort    int // likewise
	Concurrency       int // -1: unset

	NoHotRestart           bool
	BaseID                 int // -1: unset
	DrainDuration          time.Duration
	ParentShutdownDuration time.Duration
	LongestRequest         time.Duration
	DrainStrategy          string // "immediate" or "gradual"
	RestartTimeout         time.Duration
	RestartBudget          int // -1: unset
	RestartForever         bool
	WatchInterval          time.Duration
	XDSRelay               string // "true", "false"
	WasmFolders            string // with commas between
}

// Resolve turns a user's settings into Options. In order of precedence: flags, ProxyConfig resources that select the workload,
// FAIRWAY_PROXY_CONFIG, the workload's annotation, ProxyConfig resources of its namespace and of the mesh, PROXY_CONFIG, the mesh's
// defaultConfig, and defaults. A mistake comes back as *UsageError and names the flag or variable. Stdout, Stderr and Log are left
// to the caller.
func Resolve(f Flags, env Environment) (Options, error) {
	config, unknown, err := resolveProxyConfig(f, env)
	if err != nil {
		return Options{}, err
	}
	env.Vars = withProxyMetadata(env.Vars, config)
	node, err := resolveNode(f, env, config)
	if err != nil {
		return Options{}, err
	}
	o, err := resolveProcess(f, env, config)
	if err != nil {
		return Options{}, err
	}
	if o.Bootstrap, err = resolveBootstrap(f, env, config, node); err != nil {
		return o, err
	}
	addPorts(o.Bootstrap, o.Shutdown)
	o.Status = resolveStatus(env, o.Bootstrap)
	if err := resolveSecrets(env, &o); err != nil {
		return o, err
	}
	if o.Health, err = health.Parse(config.GetReadinessProbe(), node.IP); err != nil {
		return o, Usage("readinessProbe: %w", err)
	}
	if err := resolveNames(env, &o); err != nil {
		return o, err
	}
	if err := resolveRelay(f, env, &o); err != nil {
		return o, err
	}
	o.Watched, o.Unknown = watched(f, env), unknown
	return o, nil
}

// watched returns the files that Resolve reads, and those that limit processors.
func watched(f Flags, env Environment) []string {
	out := []string{f.MeshConfig, f.ProxyConfigs, env.LabelsFile, env.AnnotationsFile, env.Vars["ISTIO_BOOTSTRAP_OVERRIDE"]}
	if env.Machine != nil {
		out = append(out, cpu.Files(env.Machine)...)
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// withProxyMetadata adds ProxyConfig.proxyMetadata, which are variables; real ones win.
func withProxyMetadata(vars map[string]string, config *meshconfig.ProxyConfig) map[string]string {
	out := maps.Clone(config.GetProxyMetadata())
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, vars)
	return out
}

func resolveNode(f Flags, env Environment, config *meshconfig.ProxyConfig) (bootstrap.Node, error) {
	n := bootstrap.Node{Name: env.Vars["POD_NAME"], Namespace: env.Vars["POD_NAMESPACE"], Domain: f.Domain}
	switch f.Type {
	case "", "sidecar":
		n.Type = mesh.Sidecar
	case "router":
		n.Type = mesh.Router
	default:
		return n, Usage("a proxy is a sidecar or a router, not %q", f.Type)
	}
	if n.Name == "" {
		n.Name = env.Hostname
	}
	if n.Namespace == "" {
		n.Namespace = "default"
	}
	if n.Domain == "" {
		n.Domain = n.Namespace + ".svc.cluster.local"
	}
	for _, part := range [][2]string{{"POD_NAME", n.Name}, {"POD_NAMESPACE", n.Namespace}, {"--domain", n.Domain}} {
		if strings.ContainsAny(part[1], "~ \t\n") {
			return n, Usage("%s: %q cannot be part of a node id", part[0], part[1])
		}
	}
	addresses, err := env.addresses()
	if err != nil {
		return n, err
	}
	n.IP = addresses[0]
	if n.Metadata, err = resolveMetadata(env, config, n, addresses); err != nil {
		return n, err
	}
	n.Cluster = serviceCluster(f, config, n)
	n.Locality, err = resolveLocality(f.Locality, firstLabel(n.Metadata, mesh.LocalityLabels[:]))
	return n, err
}

// resolveMetadata returns node metadata as istio-proxy sends it.
func resolveMetadata(env Environment, config *meshconfig.ProxyConfig, n bootstrap.Node, addresses []string) (map[string]any, error) {
	meta, err := environmentMetadata(env.Vars)
	if err != nil {
		return nil, err
	}
	for _, f := range []struct{ key, path string }{{"LABELS", env.LabelsFile}, {"ANNOTATIONS", env.AnnotationsFile}} {
		pairs, err := readPairs(f.path)
		if err != nil {
			return nil, err
		}
		if len(pairs) > 0 {
			setDefault(meta, f.key, pairs)
		}
	}
	proxyConfig, err := asMap(config)
	if err != nil {
		return nil, Usage("PROXY_CONFIG: %w", err)
	}
	meta["NAME"], meta["NAMESPACE"] = n.Name, n.Namespace
	meta["INSTANCE_IPS"] = strings.Join(addresses, ",")
	meta["PROXY_CONFIG"] = proxyConfig
	setDefault(meta, "ISTIO_VERSION", version)
	setDefault(meta, "CLUSTER_ID", "Kubernetes")
	setDefault(meta, "SERVICE_ACCOUNT", env.Vars["SERVICE_ACCOUNT"])
	setDefault(meta, "NODE_NAME", env.Vars["HOST_NAME"])
	setDefault(meta, "MESH_ID", config.GetMeshId())
	setDefault(meta, "WORKLOAD_NAME", firstOf(label(meta, "service.istio.io/workload-name"), label(meta, "app")))
	setDefault(meta, "NETWORK", label(meta, "topology.istio.io/network"))
	setDefault(meta, "PROV_CERT", env.Vars["PROV_CERT"])
	if n.Type == mesh.Sidecar {
		setDefault(meta, "INTERCEPTION_MODE", config.GetInterceptionMode().String())
		if err := checkInterception(text(meta, "INTERCEPTION_MODE")); err != nil {
			return nil, err
		}
	}
	return meta, nil
}

// usualStatus is where Prometheus finds the agent's page unless the metadata says otherwise.
const usualStatus = 15020

// addPorts adds to the metadata what a control plane needs to know of the proxy's own ports, and the name that the proxy expects of
// its control plane.
func addPorts(p bootstrap.Params, s Shutdown) {
	meta := p.Node.Metadata
	if p.Ready.Port != 0 {
		setDefault(meta, "ENVOY_STATUS_PORT", float64(p.Ready.Port))
	}
	if p.Prometheus.Port != 0 {
		setDefault(meta, "ENVOY_PROMETHEUS_PORT", float64(p.Prometheus.Port))
	}
	if p.Status.Port != usualStatus {
		setDefault(meta, "FAIRWAY_STATUS_PORT", strconv.Itoa(int(p.Status.Port)))
	}
	names := []any{p.Discovery.Host}
	for _, other := range p.Others {
		if !slices.Contains(names, any(other.Host)) {
			names = append(names, other.Host)
		}
	}
	setDefault(meta, "PILOT_SAN", names)
	if s.ExitOnZero != nil {
		setDefault(meta, "EXIT_ON_ZERO_ACTIVE_CONNECTIONS", strconv.FormatBool(*s.ExitOnZero))
	}
}

func checkInterception(mode string) error {
	if _, ok := meshconfig.ProxyConfig_InboundInterceptionMode_value[mode]; !ok {
		return Usage("ISTIO_META_INTERCEPTION_MODE: %q is not one of REDIRECT, TPROXY, NONE", mode)
	}
	return nil
}

// serviceCluster names the service that traces and statistics of this proxy count for.
func serviceCluster(f Flags, config *meshconfig.ProxyConfig, n bootstrap.Node) string {
	if f.ServiceCluster != "" {
		return f.ServiceCluster
	}
	if named := config.GetServiceCluster(); named != "" {
		return named
	}
	if app := label(n.Metadata, "app"); app != "" {
		return app + "." + n.Namespace
	}
	return "istio-proxy." + n.Namespace
}

// resolveLocality reads region/zone/subzone from the flag, else region.zone.subzone from the label, which may hold no slash.
func resolveLocality(flag, label string) (mesh.Locality, error) {
	parts := strings.Split(flag, "/")
	if flag == "" {
		parts = strings.Split(label, ".")
	}
	if len(parts) > 3 {
		return mesh.Locality{}, Usage("locality %q has more parts than region, zone and subzone", flag+label)
	}
	parts = append(parts, "", "")
	return mesh.Locality{Region: parts[0], Zone: parts[1], SubZone: parts[2]}, nil
}

func resolveBootstrap(f Flags, env Environment, config *meshconfig.ProxyConfig, node bootstrap.Node) (bootstrap.Params, error) {
	p := bootstrap.Params{Node: node, Runtime: config.GetRuntimeValues()}
	if most := config.GetConnectionSettings().GetGlobalDownstreamConnectionLimit(); most != nil {
		if most.Value < 1 {
			return p, Usage("PROXY_CONFIG connectionSettings.globalDownstreamConnectionLimit: want at least 1, not %d", most.Value)
		}
		p.Connections = uint32(most.Value)
	}
	address, from := f.DiscoveryAddress, "--discoveryAddress"
	if address == "" {
		address, from = config.GetDiscoveryAddress(), "PROXY_CONFIG discoveryAddress"
	}
	var err error
	if p.Discovery, p.Others, err = discoveries(address); err != nil {
		return p, Usage("%s: %w", from, err)
	}
	for _, o := range []struct {
		name string
		port int32
	}{{"proxyAdminPort", config.GetProxyAdminPort()}, {"statusPort", config.GetStatusPort()}} {
		if o.port < 0 || o.port > 65535 {
			return p, Usage("PROXY_CONFIG %s: want a port, 0 to 65535, not %d", o.name, o.port)
		}
	}
	admin := f.AdminPort
	if admin == 0 {
		admin = uint16(config.GetProxyAdminPort())
	}
	p.Admin = bootstrap.HostPort{Host: "127.0.0.1", Port: admin}
	if err := resolvePorts(f, env, config, &p); err != nil {
		return p, err
	}
	if m := config.GetProxyStatsMatcher(); m != nil {
		p.Stats = bootstrap.StatsMatcher{
			Prefixes: m.GetInclusionPrefixes(),
			Suffixes: m.GetInclusionSuffixes(),
			Regexps:  m.GetInclusionRegexps(),
		}
	}
	return p, nil
}

// resolvePorts sets the ports where the proxy itself answers: for metrics, readiness, and the agent. A workload with a loopback
// address shares this machine's ports with others, so it listens on that address only.
func resolvePorts(f Flags, env Environment, config *meshconfig.ProxyConfig, p *bootstrap.Params) error {
	all, own := "0.0.0.0", "127.0.0.1"
	if ip, err := netip.ParseAddr(p.Node.IP); err == nil && ip.IsLoopback() {
		all, own = p.Node.IP, p.Node.IP
	} else if err == nil && ip.Is6() {
		all, own = "::", "::1"
	}
	for _, one := range []struct {
		to        *bootstrap.HostPort
		host      string
		flag      int
		name      string
		variable  string
		otherwise uint16
	}{
		{&p.Prometheus, all, f.PrometheusPort, "--prometheusPort", "ENVOY_PROMETHEUS_PORT", 15090},
		{&p.Ready, all, f.ReadyPort, "--readyPort", "ENVOY_STATUS_PORT", 15021},
		{&p.Status, own, f.StatusPort, "--statusPort", "STATUS_PORT", uint16(config.GetStatusPort())},
	} {
		n, err := port(one.flag, one.name, env, one.variable, one.otherwise)
		if err != nil {
			return err
		}
		*one.to = bootstrap.HostPort{Host: one.host, Port: n}
	}
	if p.Status.Port == 0 {
		p.Ready.Port = 0 // the agent does not answer
	}
	return nil
}

// port returns the flag's port, else the variable's, else the default; 0: none.
func port(flag int, name string, env Environment, variable string, otherwise uint16) (uint16, error) {
	text := ""
	if flag >= 0 {
		text = strconv.Itoa(flag)
	}
	said, from := env.or(text, name, variable)
	if said == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(said, 10, 16)
	if err != nil {
		return 0, Usage("%s: %q is not a port", from, said)
	}
	return uint16(n), nil
}

// resolveStatus returns what the agent's own port serves. It listens on the address of the readiness port: the kubelet's probes may
// come straight to it.
func resolveStatus(env Environment, p bootstrap.Params) Status {
	s := Status{
		Probers:       env.Vars["ISTIO_KUBE_APP_PROBERS"],
		Annotations:   env.Vars["ISTIO_PROMETHEUS_ANNOTATIONS"],
		AppHost:       firstOf(env.Vars["INSTANCE_IP"], "localhost"),
		QuitTokenFile: env.Vars["QUIT_TOKEN_FILE"],
	}
	if p.Status.Port != 0 {
		s.Listen = bootstrap.HostPort{Host: p.Ready.Host, Port: p.Status.Port}.String()
	}
	return s
}

// discoveries reads the addresses of the control planes, with commas between.
func discoveries(text string) (first bootstrap.HostPort, others []bootstrap.HostPort, err error) {
	var all []bootstrap.HostPort
	for one := range strings.SplitSeq(text, ",") {
		at, err := hostPort(strings.TrimSpace(one))
		if err != nil {
			return first, nil, err
		}
		if slices.Contains(all, at) {
			return first, nil, &net.AddrError{Err: "named twice", Addr: at.String()}
		}
		if all = append(all, at); len(all) > planes.Most {
			return first, nil, fmt.Errorf("more than %d addresses of control planes", planes.Most)
		}
	}
	return all[0], all[1:], nil
}

func hostPort(s string) (bootstrap.HostPort, error) {
	host, number, err := net.SplitHostPort(s)
	if err != nil {
		return bootstrap.HostPort{}, err
	}
	port, err := strconv.ParseUint(number, 10, 16)
	if err != nil || port == 0 || host == "" {
		return bootstrap.HostPort{}, &net.AddrError{Err: "not of the form host:port", Addr: s}
	}
	return bootstrap.HostPort{Host: host, Port: uint16(port)}, nil
}

func firstOf(choices ...string) string {
	for _, c := range choices {
		if c != "" {
			return c
		}
	}
	return ""
}
