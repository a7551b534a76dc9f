package authn

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"fairway/internal/identity"
)

// Issuer is a trusted issuer of tokens.
type Issuer struct {
	URL       string   // the tokens' iss
	Audiences []string // a token must name one of them; empty: istio-ca
	KeysFile  string   // a JSON Web Key Set, read again when it changes
	KeysURL   string   // where one is served
	// If neither is set, the issuer gives the address of its keys: <URL>/.well-known/openid-configuration (OpenID Connect Discovery).
}

// DefaultAudience is the audience of projected tokens in Istio's manifests.
const DefaultAudience = "istio-ca"

// algorithms are those with a public key: if tokens were signed with a shared secret, anyone with the key set could make them.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// maxToken is more than the largest projected token.
const maxToken = 16 << 10

// Tokens admits those who show a token of one of the issuers. A token of somebody else is not its own: ErrNotMine.
type Tokens struct {
	trust   identity.Trust
	now     func() time.Time
	issuers map[string]*issuer
}

type issuer struct {
	Issuer
	keys keySource
}

// TokenOptions are the options of Tokens in addition to the issuers.
type TokenOptions struct {
	Now    func() time.Time
	Log    *slog.Logger // has the answers of failing issuers, which callers do not see
	Client *http.Client // fetches key sets; nil: one of its own
}

// NewTokens checks the issuers. It calls none before the first token comes, so that a control plane can start without them.
func NewTokens(trust identity.Trust, issuers []Issuer, o TokenOptions) (*Tokens, error) {
	if o.Client == nil {
		o.Client = &http.Client{}
	}
	t := &Tokens{trust: trust, now: o.Now, issuers: map[string]*issuer{}}
	for _, i := range issuers {
		if i.URL == "" {
			return nil, errors.New("an issuer of tokens without a name: want what its tokens have as iss")
		}
		if len(i.Audiences) == 0 {
			i.Audiences = []string{DefaultAudience}
		}
		made := &issuer{Issuer: i, keys: &served{issuer: i.URL, url: i.KeysURL, client: o.Client, now: o.Now, log: o.Log}}
		if i.KeysFile != "" {
			keys := &keyFile{path: i.KeysFile}
			if _, err := keys.read(); err != nil {
				return nil, fmt.Errorf("the keys of issuer %s: %w", i.URL, err)
			}
			made.keys = keys
		}
		t.issuers[i.URL] = made
	}
	return t, nil
}

// claims are the parts of a token that are read. Kubernetes writes namespace and account twice; both must agree.
type claims struct {
	jwt.Claims

	Kubernetes *struct {
		Namespace      string `json:"namespace"`
		ServiceAccount struct {
			Name string `json:"name"`
		} `json:"serviceaccount"`
	} `json:"kubernetes.io"`
}

// Authenticate implements Method. Its errors have their own words: callers see neither the issuer's answers nor a library's text about
// them.
func (t *Tokens) Authenticate(ctx context.Context, c Credentials) (Caller, error) {
	from, ok := t.issuers[claimedIssuer(c.Token)]
	if !ok {
		return Caller{}, ErrNotMine
	}
	signed, err := jose.ParseSignedCompact(c.Token, algorithms)
	if err != nil || len(signed.Signatures) != 1 {
		return Caller{}, refused("the token is not a JSON Web Token, or is signed with an algorithm that is not accepted; want one of "+
			"%v", algorithms)
	}
	payload, err := verify(ctx, signed, from.keys)
	switch {
	case errors.Is(err, ErrUnavailable):
		return Caller{}, err
	case err != nil:
		return Caller{}, refused("the token: %w", err)
	}
	var said claims
	if json.Unmarshal(payload, &said) != nil {
		return Caller{}, refused("the token's claims are not those of a service account's token")
	}
	if err := t.check(from, said); err != nil {
		return Caller{}, err
	}
	id, err := t.identity(said)
	if err != nil {
		return Caller{}, refused("the token: %w", err)
	}
	return Caller{ID: id, By: "token", Until: said.Expiry.Time()}, nil
}

// claimedIssuer returns the issuer that a token names, before it is verified; empty if it is not such a token.
func claimedIssuer(token string) string {
	var c struct {
		Issuer string `json:"iss"`
	}
	if body, ok := Payload(token); !ok || json.Unmarshal(body, &c) != nil {
		return ""
	}
	return c.Issuer
}

// Payload returns the content of a JSON Web Token before it is verified; false if it is not such a token, or is too long.
func Payload(token string) ([]byte, bool) {
	if len(token) > maxToken || strings.Count(token, ".") != 2 {
		return nil, false
	}
	body, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	return body, err == nil
}

// leeway is how far the clocks of issuer and control plane may differ for a token that is not valid yet.
const leeway = time.Minute

func (t *Tokens) check(from *issuer, said claims) error {
	now := t.now()
	if said.Issuer != from.URL {
		return refused("the token is of another issuer than it says")
	}
	if said.Expiry == nil {
		return refused("the token has no end (exp)")
	}
	if end := said.Expiry.Time(); !now.Before(end) {
		return refused("the token ended at %s; the control plane's clock says %s", stamp(end), stamp(now))
	}
	if said.NotBefore != nil {
		if begin := said.NotBefore.Time(); now.Add(leeway).Before(begin) {
			return refused("the token is not valid before %s; the control plane's clock says %s", stamp(begin), stamp(now))
		}
	}
	for _, a := range from.Audiences {
		if said.Audience.Contains(a) {
			return nil
		}
	}
	return refused("the token is made for audience %.200q; want one of %q", []string(said.Audience), from.Audiences)
}

func (t *Tokens) identity(said claims) (identity.ID, error) {
	id, err := identity.FromSubject(t.trust.Domain(), said.Subject)
	if err != nil {
		return identity.ID{}, err
	}
	if k := said.Kubernetes; k != nil && (k.Namespace != id.Namespace || k.ServiceAccount.Name != id.ServiceAccount) {
		return identity.ID{}, fmt.Errorf("its subject is %s, but its kubernetes.io claim says %.200q/%.200q", said.Subject,
			k.Namespace, k.ServiceAccount.Name)
	}
	return id, nil
}
