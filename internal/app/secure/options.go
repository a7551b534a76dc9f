package secure

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"fairway/internal/app/environment"
	"fairway/internal/app/sharing"
	"fairway/internal/identity/authn"
	"fairway/internal/identity/ca"
	"fairway/internal/limit"
)

// Options are the options of the secure address: the certificate authority, and the authentication of callers. They count if
// Options.SecureAddr is set.
type Options struct {
	TrustDomain string     // empty: the mesh configuration's
	Aliases     []string   // of the trust domain; nil: the mesh configuration's
	CA          ca.Options // its clock, log and store are the program's
	Sharing     sharing.Options
	NoCA        bool // ENABLE_CA_SERVER=false: certificates are somebody else's; --tlsCertFile and --caCertFile are needed then

	CertFile, KeyFile string   // --tlsCertFile, --tlsKeyFile: shown to agents; empty: one of the authority's
	ClientRoots       string   // --caCertFile: further roots for client certificates
	Names             []string // more DNS names and IP addresses under which agents find the control plane (ISTIOD_CUSTOM_HOST)

	Issuers  []authn.Issuer
	Audience string     // of tokens that a platform reviews; empty: authn.DefaultAudience
	Address  limit.Rate // certificate requests from one address
	Identity limit.Rate // and by one identity
	Failures limit.Rate // refused streams from one address; above it, new streams are refused without a check
}

// stateDir is the default folder of a self-made root.
const stateDir = "./var/lib/fairway/ca"

// DefaultOptions keep a self-made root in memory; the program's flags name a folder.
func DefaultOptions() Options {
	return Options{
		CA:       ca.DefaultOptions(),
		Address:  limit.Rate{PerSecond: 20, Burst: 200},
		Identity: limit.Rate{PerSecond: 10, Burst: 100}, // replicas of one deployment share an identity
		Failures: limit.Rate{PerSecond: 5, Burst: 50},   // many workloads may come from one address
	}
}

// DefaultState is the folder that keeps root and join tokens unless a flag names another.
func DefaultState() string {
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" { // systemd's StateDirectory=
		return filepath.Join(dir, "ca")
	}
	return stateDir
}

// Flags are the flags of an issuer of tokens, which are gathered into one. The others are in the options at once.
type Flags struct{ url, keys, audience string }

// Bind declares the flags of the options.
func (f *Flags) Bind(fs *pflag.FlagSet, o *Options) {
	o.CA.State = DefaultState()
	fs.StringVar(&o.CertFile, "tlsCertFile", "", "certificate chain shown to agents; empty: one of the own certificate authority's")
	fs.StringVar(&o.KeyFile, "tlsKeyFile", "", "private key of --tlsCertFile")
	fs.StringVar(&o.ClientRoots, "caCertFile", "", "roots beside the mesh's own that agents' certificates may come from")
	fs.StringVar(&o.CA.State, "caStateDir", o.CA.State,
		"folder that keeps the self-made root and the join tokens, or a sealed copy of what --state keeps; empty: memory")
	o.Sharing.Bind(fs)
	fs.StringVar(&f.url, "tokenIssuer", "",
		"issuer (iss) of tokens that agents may show; its keys are found by OpenID Connect discovery (default $TOKEN_ISSUER)")
	fs.StringVar(&f.keys, "tokenKeys", "", "file with the issuer's JSON Web Key Set, in place of discovery (default $TOKEN_KEYS)")
	fs.StringVar(&f.audience, "tokenAudience", "",
		"audience that tokens must be made for (default $AUDIENCE, else "+authn.DefaultAudience+")")
}

// Read applies environment variables, under Istio's names if Istio has the option; flags override them.
func (f *Flags) Read(o *Options, env func(string) (string, bool)) error {
	e := environment.Reader{Lookup: env}
	e.Duration("DEFAULT_WORKLOAD_CERT_TTL", &o.CA.DefaultTTL)
	e.Duration("MAX_WORKLOAD_CERT_TTL", &o.CA.MaxTTL)
	e.Duration("CITADEL_SELF_SIGNED_CA_CERT_TTL", &o.CA.RootTTL)
	e.Percent("CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE", &o.CA.RenewRoot)
	e.Text("ROOT_CA_DIR", &o.CA.Plugged)
	if v := e.Get("ENABLE_CA_SERVER"); v != "" {
		on, err := strconv.ParseBool(v)
		e.AddError("ENABLE_CA_SERVER", err)
		o.NoCA = !on
	}
	for _, name := range strings.Split(e.Get("ISTIOD_CUSTOM_HOST"), ",") {
		if name = strings.TrimSpace(name); name != "" {
			o.Names = append(o.Names, name)
		}
	}
	if dir := e.Get("CERT_DIR"); dir != "" && o.CertFile == "" {
		o.CertFile, o.KeyFile = filepath.Join(dir, "cert-chain.pem"), filepath.Join(dir, "key.pem")
	}
	i := *f
	for _, v := range []struct {
		name string
		to   *string
	}{{"TOKEN_ISSUER", &i.url}, {"TOKEN_KEYS", &i.keys}, {"AUDIENCE", &i.audience}} {
		if *v.to == "" {
			*v.to = e.Get(v.name)
		}
	}
	o.Issuers, o.Audience = issuers(&e, i), i.audience
	return e.Err()
}

// issuers puts together the issuer that flags name and the one of JWT_RULE, a JSON object as Istio's JWTRule.
func issuers(e *environment.Reader, named Flags) []authn.Issuer {
	var out []authn.Issuer
	if named.url != "" {
		i := authn.Issuer{URL: named.url, KeysFile: named.keys}
		if named.audience != "" {
			i.Audiences = []string{named.audience}
		}
		out = append(out, i)
	} else if named.keys != "" {
		e.AddError("--tokenKeys", errors.New("the keys have no issuer: name it with --tokenIssuer"))
	}
	if rule := e.Get("JWT_RULE"); rule != "" {
		var r struct {
			Issuer    string   `json:"issuer"`
			Audiences []string `json:"audiences"`
			JwksURI   string   `json:"jwksUri"`
			JwksURI2  string   `json:"jwks_uri"`
		}
		e.AddError("JWT_RULE", json.Unmarshal([]byte(rule), &r))
		out = append(out, authn.Issuer{URL: r.Issuer, Audiences: r.Audiences, KeysURL: r.JwksURI + r.JwksURI2})
	}
	return out
}

// Validate returns the options that cannot work.
func (o Options) Validate() error {
	var errs []error
	if (o.CertFile == "") != (o.KeyFile == "") {
		errs = append(errs, errors.New("--tlsCertFile and --tlsKeyFile: want both or neither"))
	}
	if o.NoCA && (o.CertFile == "" || o.ClientRoots == "") {
		errs = append(errs,
			errors.New("ENABLE_CA_SERVER=false: without an authority --secureGRPCAddr needs --tlsCertFile, --tlsKeyFile and --caCertFile"))
	}
	if !o.NoCA {
		errs = append(errs, o.CA.Validate(), o.Sharing.Validate())
	}
	return errors.Join(errs...)
}
