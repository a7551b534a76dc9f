package agent

import (
	"maps"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	meshv1alpha1 "istio.io/api/mesh/v1alpha1"

	"fairway/internal/envoy/bootstrap"
	"fairway/internal/mesh"
)

// Flags are the command line's; zero values say nothing, and what environment and files say counts.
type Flags struct {
	Type              string // "sidecar" or "router"
	Domain            string
	ServiceCluster    string
	MeshConfig        string // file
	DiscoveryAddress  string
	Envoy             string
	ConfigPath        string
	Locality          string // region/zone/subzone
	ProxyLogLevel     string
	ComponentLogLevel string
	AdminPort         uint16
	PrometheusPort    int // -1: unset; 0: do not serve
	Concurrency       int // -1: unset
	BaseID            int // -1: unset
}

// Resolve turns what a user said into Options: flags win over PROXY_CONFIG, that over the mesh's defaultConfig, that over defaults.
// A mistake comes back as *UsageError and names the flag or variable. Stdout, Stderr and Log are left to the caller.
func Resolve(f Flags, env Environment) (Options, error) {
	config, err := resolveProxyConfig(f.MeshConfig, env.Vars["PROXY_CONFIG"])
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
	o.Bootstrap, err = resolveBootstrap(f, env, config, node)
	return o, err
}

// withProxyMetadata adds ProxyConfig.proxyMetadata, which are variables; real ones win.
func withProxyMetadata(vars map[string]string, config *meshv1alpha1.ProxyConfig) map[string]string {
	out := maps.Clone(config.GetProxyMetadata())
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, vars)
	return out
}

func resolveNode(f Flags, env Environment, config *meshv1alpha1.ProxyConfig) (bootstrap.Node, error) {
	n := bootstrap.Node{Name: env.Vars["POD_NAME"], Namespace: env.Vars["POD_NAMESPACE"], Domain: f.Domain}
	switch f.Type {
	case "", "sidecar":
		n.Type = mesh.Sidecar
	case "router":
		n.Type = mesh.Router
	default:
		return n, usage("a proxy is a sidecar or a router, not %q", f.Type)
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
	for what, part := range map[string]string{"POD_NAME": n.Name, "POD_NAMESPACE": n.Namespace, "--domain": n.Domain} {
		if strings.ContainsAny(part, "~ \t\n") {
			return n, usage("%s: %q cannot be part of a node id", what, part)
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
	n.Locality, err = resolveLocality(f.Locality, label(n.Metadata, "istio-locality"))
	return n, err
}

// resolveMetadata gives node metadata as istio-proxy sends it.
func resolveMetadata(env Environment, config *meshv1alpha1.ProxyConfig, n bootstrap.Node, addresses []string) (map[string]any, error) {
	meta, err := environmentMetadata(env.Vars)
	if err != nil {
		return nil, err
	}
	for key, path := range map[string]string{"LABELS": env.LabelsFile, "ANNOTATIONS": env.AnnotationsFile} {
		pairs, err := readPairs(path)
		if err != nil {
			return nil, err
		}
		if len(pairs) > 0 {
			setDefault(meta, key, pairs)
		}
	}
	proxyConfig, err := asMap(config)
	if err != nil {
		return nil, usage("PROXY_CONFIG: %w", err)
	}
	meta["NAME"], meta["NAMESPACE"] = n.Name, n.Namespace
	meta["INSTANCE_IPS"] = strings.Join(addresses, ",")
	meta["PROXY_CONFIG"] = proxyConfig
	setDefault(meta, "ISTIO_VERSION", version)
	setDefault(meta, "CLUSTER_ID", "Kubernetes")
	setDefault(meta, "SERVICE_ACCOUNT", env.Vars["SERVICE_ACCOUNT"])
	setDefault(meta, "NODE_NAME", env.Vars["HOST_NAME"])
	setDefault(meta, "MESH_ID", config.GetMeshId())
	setDefault(meta, "WORKLOAD_NAME", label(meta, "app"))
	if n.Type == mesh.Sidecar {
		setDefault(meta, "INTERCEPTION_MODE", config.GetInterceptionMode().String())
		if err := checkInterception(text(meta, "INTERCEPTION_MODE")); err != nil {
			return nil, err
		}
	}
	return meta, nil
}

func checkInterception(mode string) error {
	if _, ok := meshv1alpha1.ProxyConfig_InboundInterceptionMode_value[mode]; !ok {
		return usage("ISTIO_META_INTERCEPTION_MODE: %q is none of REDIRECT, TPROXY, NONE", mode)
	}
	return nil
}

// serviceCluster names the service that traces and statistics of this proxy count for.
func serviceCluster(f Flags, config *meshv1alpha1.ProxyConfig, n bootstrap.Node) string {
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
		return mesh.Locality{}, usage("locality %q has more parts than region, zone and subzone", flag+label)
	}
	parts = append(parts, "", "")
	return mesh.Locality{Region: parts[0], Zone: parts[1], SubZone: parts[2]}, nil
}

func resolveBootstrap(f Flags, env Environment, config *meshv1alpha1.ProxyConfig, node bootstrap.Node) (bootstrap.Params, error) {
	p := bootstrap.Params{Node: node, Runtime: config.GetRuntimeValues()}
	address, from := f.DiscoveryAddress, "--discoveryAddress"
	if address == "" {
		address, from = config.GetDiscoveryAddress(), "PROXY_CONFIG discoveryAddress"
	}
	var err error
	if p.Discovery, err = hostPort(address); err != nil {
		return p, usage("%s: %w", from, err)
	}
	admin := f.AdminPort
	if admin == 0 {
		admin = uint16(config.GetProxyAdminPort())
	}
	p.Admin = bootstrap.HostPort{Host: "127.0.0.1", Port: admin}
	port, err := prometheusPort(f, env)
	if err != nil {
		return p, err
	}
	p.Prometheus = bootstrap.HostPort{Host: "0.0.0.0", Port: port}
	if m := config.GetProxyStatsMatcher(); m != nil {
		p.Stats = bootstrap.StatsMatcher{Prefixes: m.GetInclusionPrefixes(), Suffixes: m.GetInclusionSuffixes(), Regexps: m.GetInclusionRegexps()}
	}
	return p, nil
}

// prometheusPort is the flag's, else ENVOY_PROMETHEUS_PORT's, else 15090; 0 is nowhere.
func prometheusPort(f Flags, env Environment) (uint16, error) {
	said, from := strconv.Itoa(f.PrometheusPort), "--prometheusPort"
	if f.PrometheusPort < 0 {
		said, from = env.Vars["ENVOY_PROMETHEUS_PORT"], "ENVOY_PROMETHEUS_PORT"
	}
	if said == "" {
		return 15090, nil
	}
	port, err := strconv.ParseUint(said, 10, 16)
	if err != nil {
		return 0, usage("%s: %q is no port", from, said)
	}
	return uint16(port), nil
}

// parentMargin is how much longer than it drains an Envoy stays after its successor took over: a parent that goes before its last
// request has ended cuts it off.
const parentMargin = 15 * time.Second

func resolveProcess(f Flags, env Environment, config *meshv1alpha1.ProxyConfig) (Options, error) {
	o := Options{
		CustomConfig:      config.GetCustomConfigFile(),
		Envoy:             firstOf(f.Envoy, config.GetBinaryPath(), "envoy"),
		ConfigDir:         firstOf(f.ConfigPath, config.GetConfigPath()),
		LogLevel:          f.ProxyLogLevel,
		ComponentLogLevel: f.ComponentLogLevel,
		Concurrency:       int(config.GetConcurrency().GetValue()),
		DrainTime:         config.GetDrainDuration().AsDuration(),
		ParentShutdown:    config.GetDrainDuration().AsDuration() + parentMargin,
		Termination:       config.GetTerminationDrainDuration().AsDuration(),
	}
	if f.Concurrency >= 0 {
		o.Concurrency = f.Concurrency
	}
	if f.BaseID >= 0 {
		id := uint32(f.BaseID)
		o.BaseID = &id
	}
	if said := env.Vars["TERMINATION_DRAIN_DURATION_SECONDS"]; said != "" {
		seconds, err := strconv.Atoi(said)
		if err != nil || seconds <= 0 {
			return o, usage("TERMINATION_DRAIN_DURATION_SECONDS: %q is no positive number of seconds", said)
		}
		o.Termination = time.Duration(seconds) * time.Second
	}
	return o, readOverride(&o, env.Vars["ISTIO_BOOTSTRAP_OVERRIDE"])
}

// readOverride loads the file that ISTIO_BOOTSTRAP_OVERRIDE names.
func readOverride(o *Options, path string) error {
	if path == "" {
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return usage("ISTIO_BOOTSTRAP_OVERRIDE: %w", err)
	}
	o.Override = string(content)
	return nil
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
