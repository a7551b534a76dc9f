package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"fairway/internal/app/environment"
	"fairway/internal/app/registries"
	"fairway/internal/app/secure"
	"fairway/internal/compile/input"
	"fairway/internal/disk"
	"fairway/internal/levels"
	"fairway/internal/mesh"
	"fairway/internal/snapshot"
	"fairway/internal/source/kube"
	"fairway/internal/web"
)

// Options are all options of pilot-discovery. DefaultOptions returns the defaults; Validate must pass before Run.
type Options struct {
	ConfigDir  string   // --configDir: folder of rules; empty: none
	Registries []string // --registries
	MeshConfig string   // --meshConfig: file; need not exist
	Networks   string   // --networksConfig: file; need not exist
	Kubeconfig string   // --kubeconfig: file that says how to reach the cluster; empty: the one that this runs in
	ClusterID  string   // --clusterID
	// PILOT_REMOTE_CLUSTER_TIMEOUT: how long the start waits for other clusters; 0: until each has been read
	ClusterWait time.Duration
	// PILOT_STALE_CLUSTER_TTL: for how long the endpoints of another cluster that does not answer count; 0: for ever
	ClusterTTL time.Duration
	// ClusterMiB limits the memory for the data of another cluster, approximately, in MiB.
	ClusterMiB int
	// PILOT_STALE_SOURCE_ERROR: how long a source may be out of date until that is an error; until then it is a warning
	StaleError time.Duration
	// PILOT_JWT_ENABLE_REMOTE_JWKS: who fetches the keys of issuers of requests' tokens
	KeysBy input.KeysBy
	// PILOT_JWT_PUB_KEY_REFRESH_INTERVAL: how long such keys count until they are asked for again
	KeysRefresh  time.Duration
	KeysInsecure bool           // JWKS_RESOLVER_INSECURE_SKIP_VERIFY: the certificates of issuers' key servers are not verified
	KeysBarred   []netip.Prefix // BLOCKED_CIDRS_IN_JWKS_URIS: networks that no issuer's keys are fetched from
	// RESOLVE_HOSTNAME_GATEWAYS: the names of east-west gateways are resolved
	ResolveGateways bool
	// PILOT_SCOPE_GATEWAY_TO_NAMESPACE: Gateways select only gateways of their own namespace
	ScopeGateways bool
	GatewayAPI    environment.GatewayAPI
	// NameServers are those that resolve them, as addresses with ports; nil: those of /etc/resolv.conf, read each time
	NameServers func() ([]string, error)
	ClusterDir  string // --clusterStateDir: folder for the last rows of other clusters and registries; empty: none
	// --registriesConfig: file that says which registries are read beside Kubernetes; need not exist; empty: there is none
	RegistriesFile string
	ConsulURL      string // --consulserverURL: of the Consul that --registries names
	Domain         string // --domain
	Namespace      string // --namespace: the root namespace unless the mesh configuration names one
	GRPCAddr       string // --grpcAddr: plaintext xDS; empty: none
	SecureAddr     string // --secureGRPCAddr: xDS and the certificate authority over TLS; empty: none
	Identity       secure.Options
	HTTPAddr       string // --httpAddr: readiness and debug pages
	// --httpsAddr: the same pages with TLS, for authenticated callers; served only together with SecureAddr; empty: none
	HTTPSAddr   string
	Profiles    bool          // --profile: /debug/pprof, for callers who may see all pages
	MonitorAddr string        // --monitoringAddr: metrics; empty: on HTTPAddr
	KeepAlive   time.Duration // --keepaliveInterval
	KeepTimeout time.Duration // --keepaliveTimeout
	MaxAge      time.Duration // --keepaliveMaxServerConnectionAge; 0: none
	Shutdown    time.Duration // --shutdownDuration: window over which streams are drained
	Grace       time.Duration // --referenceGrace: how long a rule waits for the objects that it refers to
	SendTimeout time.Duration // --sendTimeout: a proxy that does not read for this long is cut
	MaxStreams  int           // --maxStreams
	ProxyShare  int           // --maxProxiesPerIdentity: of proxies that prove nothing, for each address
	Variants    int           // --maxVariantsPerIdentity: likewise
	NewStreams  int           // --newStreamsPerSecond
	MaxMessage  int           // --maxRequestBytes
	MaxNames    int           // --maxSubscriptions: names one stream may ask for
	FirstWait   time.Duration // how long a stream may take to identify itself
	IdleAfter   time.Duration // how long a connection may stay without a stream
	ProxyLinger time.Duration // how long a proxy's rows are kept after its last stream ended
	// PILOT_WORKLOAD_ENTRY_GRACE_PERIOD: how long an agent's health report counts after its last stream ended
	HealthGrace time.Duration
	// how long after a start agents may take to say it; until then WorkloadEntries that are checked count as healthy
	HealthStart time.Duration
	// Configuration of injection, which is served at HTTPSAddr.
	InjectFolder string // --injectConfigFolder: with the files config and values; need not exist
	Injects      bool   // INJECT_ENABLED
	// --injectKeyFile: keys that API servers show at /inject, one a line, beside those of the own cluster's configurations; empty: none
	InjectKeyFile string
	Revision      string // REVISION: of this control plane
	// Signer is the Kubernetes signer (PILOT_CERT_PROVIDER, behind k8s.io/) of the certificates that API servers see and of those
	// in MeshConfig.certificates; empty: the own authority signs them.
	Signer string
	// Replay is the input in place of everything outside (pilot-discovery replay); nil: sources are read.
	Replay *snapshot.Snapshot
	Log    *slog.Logger
	Levels *levels.Levels // of Log, for /debug/scopez; nil: there is no such page
}

// DefaultOptions returns Istio's defaults for options that Istio has. Only the flags' defaults open the secure addresses: these
// keep a root in a folder.
func DefaultOptions() Options {
	return Options{
		Registries: []string{"Kubernetes"},
		MeshConfig: "./etc/istio/config/mesh",
		Networks:   "./etc/istio/config/meshNetworks",
		ClusterID:  "Kubernetes",

		RegistriesFile: "./etc/istio/config/registries",

		ClusterWait: 30 * time.Second,
		ClusterTTL:  24 * time.Hour,
		ClusterMiB:  kube.RemoteMiB,
		StaleError:  5 * time.Minute,
		KeysRefresh: 20 * time.Minute,

		ResolveGateways: true,
		KeysBarred:      slices.Concat(web.LinkLocal, web.OwnMachine),
		Domain:          "cluster.local",
		Namespace:       "istio-system",
		GRPCAddr:        ":15010",
		Identity:        secure.DefaultOptions(),
		HTTPAddr:        ":8080",
		Profiles:        true,
		MonitorAddr:     ":15014",
		KeepAlive:       30 * time.Second,
		KeepTimeout:     10 * time.Second,
		Shutdown:        10 * time.Second,
		Grace:           10 * time.Second,
		SendTimeout:     30 * time.Second,
		MaxStreams:      20000,
		ProxyShare:      5000,
		Variants:        mesh.Variants,
		NewStreams:      1000,
		MaxMessage:      16 << 20,
		MaxNames:        100000,
		FirstWait:       10 * time.Second,
		IdleAfter:       time.Minute,
		ProxyLinger:     60 * time.Second,
		HealthGrace:     10 * time.Second,
		HealthStart:     30 * time.Second,
		Injects:         true,
		Revision:        "default",
		Log:             slog.New(slog.DiscardHandler),
	}
}

// kubernetes is the registry that --registries names.
const kubernetes = "Kubernetes"

// consulRegistry is the registry that --registries names and --consulserverURL leads to.
const consulRegistry = "Consul"

// flagged are the registries that flags name, beside Kubernetes.
func (o *Options) flagged() []registries.Entry {
	if !containsFold(o.Registries, consulRegistry) {
		return nil
	}
	return []registries.Entry{registries.Consul(o.ConsulURL)}
}

// knownRegistries are the registries that this program has. Kubernetes is read if there is a cluster: its name alone is not a mistake.
var knownRegistries = []string{"Kubernetes", "Mock", "Memory", "File", consulRegistry}

// Validate tells every mistake in the options at once.
func (o *Options) Validate() error {
	var errs []error
	if o.ConfigDir != "" {
		if err := disk.Listable(o.ConfigDir); err != nil {
			errs = append(errs, fmt.Errorf("--configDir: %w", err))
		}
	}
	for _, a := range []struct{ flag, addr string }{
		{"--grpcAddr", o.GRPCAddr},
		{"--secureGRPCAddr", o.SecureAddr},
		{"--httpAddr", o.HTTPAddr},
		{"--httpsAddr", o.HTTPSAddr},
		{"--monitoringAddr", o.MonitorAddr},
	} {
		if a.addr == "" {
			continue
		}
		if _, err := net.ResolveTCPAddr("tcp", a.addr); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w; want host:port or :port", a.flag, err))
		}
	}
	for _, r := range o.Registries {
		if !containsFold(knownRegistries, r) {
			errs = append(errs, fmt.Errorf("--registries: %q is not one of %s; others are named in the file of --registriesConfig",
				r, strings.Join(knownRegistries, ", ")))
		}
	}
	if o.ConsulURL != "" && !containsFold(o.Registries, consulRegistry) {
		errs = append(errs, errors.New("--consulserverURL: --registries does not name Consul; name it, or leave the URL out"))
	}
	if err := registries.CheckFlags(o.flagged()); err != nil {
		errs = append(errs, fmt.Errorf("--consulserverURL: %w", err))
	}
	if o.Kubeconfig != "" && !containsFold(o.Registries, kubernetes) {
		errs = append(errs, errors.New("--kubeconfig: --registries does not name Kubernetes; name it, or leave the file out"))
	}
	if o.SecureAddr != "" {
		errs = append(errs, o.Identity.Validate())
	}
	if o.GRPCAddr == "" && o.SecureAddr == "" {
		errs = append(errs, errors.New("--grpcAddr, --secureGRPCAddr: without either no proxy can connect; give host:port"))
	}
	errs = append(errs, o.checkNumbers())
	if o.Domain == "" || strings.ContainsAny(o.Domain, " /:") {
		errs = append(errs, fmt.Errorf("--domain: %q is not a DNS suffix; the usual is cluster.local", o.Domain))
	}
	return errors.Join(errs...)
}

// checkNumbers reports durations and bounds that are not positive.
func (o *Options) checkNumbers() error {
	return errors.Join(
		environment.Positive("--keepaliveInterval", o.KeepAlive),
		environment.Positive("--keepaliveTimeout", o.KeepTimeout),
		environment.Positive("--sendTimeout", o.SendTimeout),
		environment.NotNegative("--keepaliveMaxServerConnectionAge", o.MaxAge),
		environment.NotNegative("--shutdownDuration", o.Shutdown),
		environment.NotNegative("--referenceGrace", o.Grace),
		environment.NotNegative("PILOT_WORKLOAD_ENTRY_GRACE_PERIOD", o.HealthGrace),
		environment.NotNegative("PILOT_REMOTE_CLUSTER_TIMEOUT", o.ClusterWait),
		environment.NotNegative("PILOT_STALE_CLUSTER_TTL", o.ClusterTTL),
		environment.NotNegative("PILOT_STALE_SOURCE_ERROR", o.StaleError),
		environment.Count("--maxStreams", o.MaxStreams),
		environment.Count("--maxProxiesPerIdentity", o.ProxyShare),
		environment.Count("--maxVariantsPerIdentity", o.Variants),
		environment.Count("--newStreamsPerSecond", o.NewStreams),
		environment.Count("--maxRequestBytes", o.MaxMessage),
		environment.Count("--maxSubscriptions", o.MaxNames),
		environment.Count("--remoteClusterMaxMiB", o.ClusterMiB),
	)
}

func containsFold(list []string, s string) bool {
	for _, l := range list {
		if strings.EqualFold(l, s) {
			return true
		}
	}
	return false
}
