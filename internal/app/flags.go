package app

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"fairway/internal/app/environment"
	"fairway/internal/app/listen"
	"fairway/internal/app/secure"
	"fairway/internal/compile/input"
	"fairway/internal/disk"
	"fairway/internal/inherited"
	"fairway/internal/levels"
)

// ErrFailed marks an error of a program with valid options: its exit code is 1. For a mistake in flags or files it is 2.
var ErrFailed = errors.New("failed")

// DiscoveryFlags are pilot-discovery's flags. They have Istio's names if Istio has the option.
type DiscoveryFlags struct {
	opts     Options
	set      *pflag.FlagSet
	identity secure.Flags
	logJSON  bool
	logLevel string
}

// plaintextHere is the default address for xDS in plaintext. Without a secure address, proxies of other machines have no other way
// in, and the default is plaintextAll.
const (
	plaintextHere = "127.0.0.1:15010"
	plaintextAll  = ":15010"
)

// NewDiscoveryFlags returns the flags with their defaults.
func NewDiscoveryFlags() *DiscoveryFlags {
	f := &DiscoveryFlags{opts: DefaultOptions()}
	f.opts.SecureAddr, f.opts.HTTPSAddr = ":15012", listen.DefaultHTTPS
	f.opts.GRPCAddr = plaintextHere
	f.opts.InjectFolder = "./var/lib/istio/inject"
	return f
}

// Bind declares the flags.
func (f *DiscoveryFlags) Bind(fs *pflag.FlagSet) {
	o := &f.opts
	f.set = fs
	bindSources(fs, o)
	bindAddresses(fs, o)
	f.identity.Bind(fs, &o.Identity)
	bindInjection(fs, o)
	bindTimes(fs, o)
	bindBounds(fs, o)
	fs.BoolVar(&o.Profiles, "profile", o.Profiles, "serve profiles of this program at /debug/pprof, to those who may see all debug pages")
	fs.BoolVar(&f.logJSON, "log_as_json", false, "write the log as JSON")
	fs.StringVar(&f.logLevel, "log_output_level", "info",
		"debug, info, warn, error or none; or a list, as default:info,kube:debug: pilotctl admin log lists the scopes")
	inherited.Control().Accept(fs)
}

// bindSources binds the flags that select the sources and define the meaning of their names.
func bindSources(fs *pflag.FlagSet, o *Options) {
	fs.StringVar(&o.ConfigDir, "configDir", o.ConfigDir, "folder of rules (YAML or JSON), read and watched with its subfolders")
	fs.StringSliceVar(&o.Registries, "registries", o.Registries, "platform registries to read services from")
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig,
		"kubeconfig file of the cluster to read, its current context; empty: the cluster this control plane runs in, if it does")
	fs.StringVar(&o.MeshConfig, "meshConfig", o.MeshConfig,
		"file with the mesh configuration; read again when it changes; only the default may be absent")
	fs.StringVar(&o.Networks, "networksConfig", o.Networks,
		"file with the mesh networks; read again when it changes; only the default may be absent")
	fs.StringVar(&o.ClusterID, "clusterID", o.ClusterID,
		"name of the cluster this control plane runs in (default $CLUSTER_ID, else Kubernetes)")
	fs.StringVar(&o.ClusterDir, "clusterStateDir", stateDir(),
		"folder that keeps what other clusters and registries said last, for a start while one of them is away, and the history of turns; "+
			"empty: none does")
	fs.StringVar(&o.RegistriesFile, "registriesConfig", o.RegistriesFile,
		"file that says which registries are read beside Kubernetes; read again when it changes; only the default may be absent")
	fs.StringVar(&o.ConsulURL, "consulserverURL", o.ConsulURL, "URL of the Consul that --registries names")
	fs.StringVar(&o.Domain, "domain", o.Domain, "DNS suffix of the mesh's services")
	fs.StringVarP(&o.Namespace, "namespace", "n", o.Namespace, "root namespace, with the mesh-wide rules (default $POD_NAMESPACE)")
}

// bindAddresses binds the flags for the addresses of the control plane.
func bindAddresses(fs *pflag.FlagSet, o *Options) {
	fs.StringVar(&o.GRPCAddr, "grpcAddr", o.GRPCAddr,
		"address to serve xDS on in plaintext, to any client; empty: none. Without --secureGRPCAddr the default is "+plaintextAll)
	fs.StringVar(&o.SecureAddr, "secureGRPCAddr", o.SecureAddr,
		"address to serve xDS and the certificate authority on, with TLS 1.3; empty: none")
	fs.StringVar(&o.HTTPAddr, "httpAddr", o.HTTPAddr, "address of readiness, metrics and, for this machine's loopback, debug pages")
	fs.StringVar(&o.HTTPSAddr, "httpsAddr", o.HTTPSAddr,
		"address of the same pages with TLS, for callers with a certificate of the mesh or a token; empty: none")
	fs.StringVar(&o.MonitorAddr, "monitoringAddr", o.MonitorAddr, "address of metrics; it has the pages of --httpAddr too")
}

func bindInjection(fs *pflag.FlagSet, o *Options) {
	fs.StringVar(
		&o.InjectFolder,
		"injectConfigFolder",
		o.InjectFolder,
		"folder with the injector's configuration, files config and values as in Istio's ConfigMap; read again when they "+
			"change; only the default may be absent",
	)
	fs.StringVar(
		&o.InjectKeyFile,
		"injectKeyFile",
		o.InjectKeyFile,
		"file with keys, one a line, that API servers show in the path of injection (/inject/key/<key>), beside those in the "+
			"webhooks of the own cluster; read at the start",
	)
}

// bindTimes binds the flags that say how long connections, streams and waits last.
func bindTimes(fs *pflag.FlagSet, o *Options) {
	fs.DurationVar(&o.KeepAlive, "keepaliveInterval", o.KeepAlive, "idle time after which a proxy's connection is probed")
	fs.DurationVar(&o.KeepTimeout, "keepaliveTimeout", o.KeepTimeout, "how long a probe may go unanswered")
	fs.DurationVar(&o.MaxAge, "keepaliveMaxServerConnectionAge", o.MaxAge,
		"maximum age of a connection, so that proxies spread over control planes; 0: no maximum")
	fs.DurationVar(&o.Shutdown, "shutdownDuration", o.Shutdown, "window over which streams are drained at a graceful stop")
	fs.DurationVar(&o.Grace, "referenceGrace", o.Grace, "how long a rule waits for the subset, host or gateway it refers to")
	fs.DurationVar(&o.SendTimeout, "sendTimeout", o.SendTimeout, "a proxy that has not read for this long is cut")
}

// bindBounds binds the flags that say how much strangers may ask for.
func bindBounds(fs *pflag.FlagSet, o *Options) {
	fs.IntVar(&o.MaxStreams, "maxStreams", o.MaxStreams, "streams served at once")
	fs.IntVar(&o.ProxyShare, "maxProxiesPerIdentity", o.ProxyShare,
		"most proxies of one service account, and most of one address in plaintext")
	fs.IntVar(
		&o.Variants,
		"maxVariantsPerIdentity",
		o.Variants,
		"most variants of their configuration that proxies of one service account, or of one address in plaintext, get by what they say "+
			"of themselves; on this machine eight times that, but for what rules choose by it",
	)
	fs.IntVar(&o.NewStreams, "newStreamsPerSecond", o.NewStreams, "new streams accepted a second")
	fs.IntVar(&o.MaxMessage, "maxRequestBytes", o.MaxMessage, "largest request a proxy may send")
	fs.IntVar(&o.ClusterMiB, "remoteClusterMaxMiB", o.ClusterMiB,
		"approximate memory for the data of one other cluster; its objects, endpoints and ports are bounded in proportion")
	fs.IntVar(&o.MaxNames, "maxSubscriptions", o.MaxNames, "most names one stream may ask for")
}

// Options checks the flags and returns them as options that log to w.
func (f *DiscoveryFlags) Options(w io.Writer) (Options, error) {
	scopes, err := levels.New(f.logLevel, levels.Control())
	if err != nil {
		return Options{}, err
	}
	opts := f.opts
	if opts.SecureAddr == "" && !f.set.Changed("grpcAddr") {
		opts.GRPCAddr = plaintextAll
	}
	opts.Levels, opts.Log = scopes, scopes.Log(w, f.logJSON)
	inherited.Control().Report(opts.Log, os.LookupEnv, f.set)
	e := environment.Reader{Lookup: os.LookupEnv}
	for _, of := range []struct {
		flag, variable string
		to             *string
	}{{"clusterID", "CLUSTER_ID", &opts.ClusterID}, {"namespace", "POD_NAMESPACE", &opts.Namespace}} {
		if !f.set.Changed(of.flag) {
			e.Text(of.variable, of.to)
		}
	}
	e.Duration("PILOT_WORKLOAD_ENTRY_GRACE_PERIOD", &opts.HealthGrace)
	e.Duration("PILOT_REMOTE_CLUSTER_TIMEOUT", &opts.ClusterWait)
	e.Duration("PILOT_STALE_CLUSTER_TTL", &opts.ClusterTTL)
	e.Duration("PILOT_STALE_SOURCE_ERROR", &opts.StaleError)
	readKeys(&e, &opts)
	e.Bool("RESOLVE_HOSTNAME_GATEWAYS", &opts.ResolveGateways)
	e.Bool("PILOT_SCOPE_GATEWAY_TO_NAMESPACE", &opts.ScopeGateways)
	opts.GatewayAPI.Read(&e)
	e.Text("REVISION", &opts.Revision)
	e.Bool("INJECT_ENABLED", &opts.Injects)
	err = f.identity.Read(&opts.Identity, os.LookupEnv)
	readSigner(&e, &opts)
	f.checkNamed(&e)
	err = errors.Join(err, e.Err(), opts.Validate())
	return opts, err
}

// checkNamed reports files and folders that a flag or variable names and that do not exist. Only defaults need not exist. Folders
// that the program writes to are made.
func (f *DiscoveryFlags) checkNamed(e *environment.Reader) {
	for _, name := range []string{
		"meshConfig", "networksConfig", "registriesConfig", "injectConfigFolder", "kubeconfig", "injectKeyFile",
		"tlsCertFile", "tlsKeyFile", "caCertFile", "tokenKeys",
	} {
		if flag := f.set.Lookup(name); flag != nil && flag.Changed {
			e.AddError("--"+name, disk.Named(flag.Value.String()))
		}
	}
	e.AddError("ROOT_CA_DIR", disk.Named(e.Get("ROOT_CA_DIR")))
}

// ofKubernetes is the prefix of PILOT_CERT_PROVIDER, as in Istio, if a signer of Kubernetes signs.
const ofKubernetes = "k8s.io/"

// readSigner reads the signer of the certificates that API servers see.
func readSigner(e *environment.Reader, o *Options) {
	const name = "PILOT_CERT_PROVIDER"
	said := e.Get(name)
	signer, named := strings.CutPrefix(said, ofKubernetes)
	domain, path, whole := strings.Cut(signer, "/")
	switch {
	case said == "" || said == "istiod" || said == "custom": // custom ones come by --tlsCertFile
	case !named, !whole, len(validation.IsDNS1123Subdomain(domain)) > 0, path == "", len(signer) > mostSigner:
		e.AddError(name, fmt.Errorf(
			"%.100q is not one of istiod, custom and %s<signer>, where a signer is called as in example.com/mesh", said, ofKubernetes))
	case o.Identity.CertFile != "":
		e.AddError(name, fmt.Errorf("%.100s is to sign, and --tlsCertFile (CERT_DIR) names a certificate: choose one", said))
	case !containsFold(o.Registries, kubernetes):
		e.AddError(name, fmt.Errorf("%.100s is to sign, and no cluster is read: choose istiod, or add Kubernetes to --registries", said))
	default:
		o.Signer = signer
	}
}

// mostSigner bounds the name of a signer, in bytes, as API servers do.
const mostSigner = 571

// stateDir returns the default folder for the last rows of sources; empty: none.
func stateDir() string {
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" { // systemd's StateDirectory=
		return filepath.Join(dir, "clusters")
	}
	return ""
}

// readKeys reads how keys of issuers of requests' tokens are come by, from Istio's variables.
func readKeys(e *environment.Reader, opts *Options) {
	if by := e.Get("PILOT_JWT_ENABLE_REMOTE_JWKS"); by != "" {
		var err error
		opts.KeysBy, err = input.ParseKeysBy(by)
		e.AddError("PILOT_JWT_ENABLE_REMOTE_JWKS", err)
	}
	e.Duration("PILOT_JWT_PUB_KEY_REFRESH_INTERVAL", &opts.KeysRefresh)
	if opts.KeysRefresh <= 0 {
		e.AddError("PILOT_JWT_PUB_KEY_REFRESH_INTERVAL", errors.New("want a positive duration as 20m"))
	}
	e.Bool("JWKS_RESOLVER_INSECURE_SKIP_VERIFY", &opts.KeysInsecure)
	if list := e.Get("BLOCKED_CIDRS_IN_JWKS_URIS"); list != "" {
		opts.KeysBarred = nil
		for word := range strings.SplitSeq(list, ",") {
			p, err := netip.ParsePrefix(strings.TrimSpace(word))
			if err != nil {
				e.AddError("BLOCKED_CIDRS_IN_JWKS_URIS", fmt.Errorf("%q is not a network; want 10.0.0.0/8,fd00::/8", word))
				continue
			}
			opts.KeysBarred = append(opts.KeysBarred, p.Masked())
		}
	}
}
