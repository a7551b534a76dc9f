package origin

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
)

// Schemes of the addresses of config sources.
const (
	FolderScheme  = "fs"
	XDSScheme     = "xds"
	MCPScheme     = "mcp" // of an address without a scheme, too
	ClusterScheme = "k8s"
	PushScheme    = "mcp-sink" // of a source that connects: what follows names it
)

// mostSources is how many config sources are read.
const mostSources = 32

// ConfigSource is a source of configuration from MeshConfig.configSources.
type ConfigSource struct {
	Scheme   string
	Place    string                        // a folder; host:port of a server; else the text after the scheme
	TLS      *networking.ClientTLSSettings // nil: not set
	Services bool                          // of a server: only the ServiceEntries that it made of its platform's services
}

// Name is the address with its scheme.
func (c ConfigSource) Name() string { return c.Scheme + "://" + c.Place }

// Unmet is an entry of MeshConfig's configSources, certificates or caCertificates, or a field of one, that is not followed.
type Unmet struct {
	Field   string // its path: "configSources[0].address"
	Why     string
	Instead string // what would be right
}

// ConfigSourcesOf lists the sources that a mesh configuration names, and what of it cannot be.
func ConfigSourcesOf(spec *meshconfig.MeshConfig) (out []ConfigSource, bad []Unmet) {
	for i, s := range spec.GetConfigSources() {
		field := fmt.Sprintf("configSources[%d]", i)
		if i >= mostSources {
			return out, append(bad, Unmet{field, fmt.Sprintf("the first %d are read", mostSources), "name fewer"})
		}
		one, wrong := configSource(s)
		if wrong == nil && slices.ContainsFunc(out, func(o ConfigSource) bool { return o.Name() == one.Name() }) {
			wrong = &Unmet{".address", fmt.Sprintf("%q is that of an entry before", one.Name()), "leave one of them out"}
		}
		if wrong == nil && one.Scheme == PushScheme {
			wrong = sameCallers(out, one)
		}
		if wrong != nil {
			bad = append(bad, Unmet{field + wrong.Field, wrong.Why, wrong.Instead})
			continue
		}
		out = append(out, one)
	}
	return out, bad
}

func configSource(s *meshconfig.ConfigSource) (out ConfigSource, bad *Unmet) {
	scheme, place, has := strings.Cut(s.GetAddress(), "://")
	if !has {
		scheme, place = MCPScheme, s.GetAddress()
	}
	out = ConfigSource{Scheme: scheme, Place: place, TLS: s.GetTlsSettings()}
	for _, r := range s.GetSubscribedResources() {
		out.Services = out.Services || r == meshconfig.Resource_SERVICE_REGISTRY
	}
	switch scheme {
	case ClusterScheme:
		return out, nil
	case FolderScheme:
		if out.Place = filepath.Clean(place); !filepath.IsAbs(place) {
			return out, &Unmet{".address", fmt.Sprintf("%q is not a folder", s.GetAddress()), "write its whole path: fs:///etc/rules"}
		}
	case XDSScheme, MCPScheme:
		host, port, err := net.SplitHostPort(place)
		if n, no := strconv.ParseUint(port, 10, 16); err != nil || host == "" || no != nil || n == 0 {
			return out, &Unmet{".address", fmt.Sprintf("%q is not where a server is", s.GetAddress()), "write " + scheme + "://host:port"}
		}
		return out, checkSourceTLS(out.TLS)
	case PushScheme:
		if !sinkName(place) {
			return out, &Unmet{".address", fmt.Sprintf("%q names no source", s.GetAddress()), "write " + PushScheme + "://name: " +
				"up to 63 lower-case letters, digits, dashes and dots"}
		}
		return out, checkCallers(out.TLS)
	default:
		return out, &Unmet{
			".address", fmt.Sprintf("%q is not a scheme that is read", scheme), "write xds://, mcp://, mcp-sink://, fs:// or k8s://",
		}
	}
	return out, nil
}

// checkSourceTLS returns the first setting that is not supported.
func checkSourceTLS(t *networking.ClientTLSSettings) *Unmet {
	const at = ".tlsSettings"
	files := (t.GetClientCertificate() != "") && (t.GetPrivateKey() != "")
	switch {
	case t.GetCredentialName() != "":
		return &Unmet{at + ".credentialName", "certificates are read from files", "write caCertificates, clientCertificate, privateKey"}
	case t.GetCaCrl() != "":
		return &Unmet{at + ".caCrl", "no list of revoked certificates is looked at here: nothing is connected to", "leave it out"}
	case t.GetMode() == networking.ClientTLSSettings_MUTUAL && !files:
		return &Unmet{at, "mode MUTUAL needs a certificate of its own", "write clientCertificate and privateKey"}
	}
	return nil
}
