package settings

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fairway/internal/agent/extensions"
	"fairway/internal/agent/secrets"
	"fairway/internal/envoy/bootstrap"
	"fairway/internal/identity/safefile"
)

// relaySocket and relayCache are names in the configuration's folder; Istio's agent calls its socket so too.
const (
	relaySocket = "XDS"
	relayCache  = "xds-cache"

	extensionsSocket = "EXT"
	modulesFolder    = "wasm"
)

// defaultDiscovery is the control plane's default address; securePort is its port for workloads that show a certificate or token.
// Both as Istio has them.
const (
	defaultDiscovery = "istiod.istio-system.svc:15010"
	securePort       = 15012
)

// Relay defines how Envoy reaches the control plane through this agent.
type Relay struct {
	Socket   string // of the relay
	CacheDir string // keeps what Envoy holds; empty: nothing is kept
	// Secure means TLS as the workload: it shows its certificate or token, and verifies the control plane by its roots. Else plaintext.
	Secure     bool
	ServerName string // in the control plane's certificate; empty: the name for the address
}

// resolveRelay decides whether Envoy speaks to the control plane through the agent: if the flag or XDS_RELAY says so; by default if
// the control plane is reached as the workload, which Envoy alone cannot do, or if the agent itself has something to report. The
// port for workloads is 15012; it is also the default of a workload with a certificate from the authority.
func resolveRelay(f Flags, env Environment, o *Options) error {
	authority := authorityOf(o.Secrets)
	to := &o.Bootstrap.Discovery
	if authority != nil && len(o.Bootstrap.Others) == 0 && to.String() == defaultDiscovery {
		to.Port = securePort
	}
	secure, err := isSecure(o.Bootstrap, hasIdentity(o.Secrets), authority)
	if err != nil {
		return err
	}
	on := secure || o.Health != nil
	said, from := env.or(f.XDSRelay, "--xdsRelay", "XDS_RELAY")
	if said != "" {
		if on, err = strconv.ParseBool(said); err != nil {
			return Usage("%s: %q is neither true nor false", from, said)
		}
	}
	if said != "" && !on && o.Names != nil {
		return Usage("%s: ISTIO_META_DNS_CAPTURE has the agent resolve the names of the mesh, which it has from the relay only", from)
	}
	on = on || o.Names != nil
	if secure && !on {
		return Usage(
			"%s: the control plane at %s wants TLS as the workload, which Envoy has from the relay only; name its "+
				"plaintext port with --discoveryAddress",
			from,
			strings.Join(o.Bootstrap.Discoveries(), ","),
		)
	}
	if !on && o.Health != nil {
		return Usage("%s: only the relay reports the result of readinessProbe; remove one of the two settings", from)
	}
	if !on {
		return nil
	}
	o.Relay = &Relay{Socket: filepath.Join(o.ConfigDir, relaySocket), CacheDir: filepath.Join(o.ConfigDir, relayCache), Secure: secure}
	if authority != nil {
		o.Relay.ServerName = authority.ServerName
	}
	o.Bootstrap.DiscoverySocket = o.Relay.Socket
	if o.CustomConfig == "" { // one that somebody wrote has no cluster for it
		folders, err := wasmFolders(f, env)
		if err != nil {
			return err
		}
		o.Extensions = &extensions.Options{
			Folders:     folders,
			Socket:      filepath.Join(o.ConfigDir, extensionsSocket),
			Dir:         filepath.Join(o.ConfigDir, modulesFolder),
			Credentials: registryCredentials(env),
		}
		o.Bootstrap.ExtensionsSocket = o.Extensions.Socket
	}
	return nil
}

// isSecure reports whether the control planes are reached with TLS as the workload. It is an error if only some of them are.
func isSecure(p bootstrap.Params, identified bool, authority *secrets.Authority) (bool, error) {
	secure := 0
	all := append([]bootstrap.HostPort{p.Discovery}, p.Others...)
	for _, to := range all {
		if identified && (to.Port == securePort || authority != nil && slices.Contains(authority.Addresses, to.String())) {
			secure++
		}
	}
	if secure != 0 && secure != len(all) {
		return false, Usage("discoveryAddress: %s: some of these are ports for workloads with an identity (%d, or those of CA_ADDR), and "+
			"some are not; want all of one kind", strings.Join(p.Discoveries(), ","), securePort)
	}
	return secure > 0, nil
}

// wasmFolders reads the folders of modules by file://. None: any file may be a module.
func wasmFolders(f Flags, env Environment) (out []string, err error) {
	said, from := env.or(f.WasmFolders, "--wasmFolders", "WASM_FOLDERS")
	for folder := range strings.SplitSeq(said, ",") {
		switch folder = strings.TrimSpace(folder); {
		case folder == "":
		case !filepath.IsAbs(folder):
			return nil, Usage("%s: %q is not an absolute path; want folders as /var/lib/wasm,/opt/wasm", from, folder)
		default:
			out = append(out, filepath.Clean(folder))
		}
	}
	return out, nil
}

// registryCredentials reads the machine's own logins for registries, where Docker's tools have them: config.json of DOCKER_CONFIG.
func registryCredentials(env Environment) func() ([]byte, error) {
	folder := env.Vars["DOCKER_CONFIG"]
	if folder == "" {
		return nil
	}
	return func() ([]byte, error) {
		raw, err := safefile.Read(filepath.Join(folder, "config.json"), longestFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return raw, err
	}
}

func authorityOf(s *secrets.Options) *secrets.Authority {
	if s == nil {
		return nil
	}
	return s.Authority
}

func hasIdentity(s *secrets.Options) bool {
	return s != nil && (s.Authority != nil || s.SPIRE != "" || s.Files != nil)
}
