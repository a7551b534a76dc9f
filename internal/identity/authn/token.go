package authn

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"fairway/internal/identity"
)

// Issuer is somebody whose tokens are believed.
type Issuer struct {
	URL       string   // the tokens' iss
	Audiences []string // of which a token must name one; empty: istio-ca
	KeysFile  string   // a JSON Web Key Set, read again when it changes
	KeysURL   string   // where one is served
	// Without either the issuer is asked for it: <URL>/.well-known/openid-configuration (OpenID Connect Discovery).
}

// DefaultAudience is what Istio's manifests have projected tokens made for.
const DefaultAudience = "istio-ca"

// algorithms are those with a public key: a token signed with a shared secret proves nothing to whoever knows the key set.
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

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
	client *http.Client

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier // nil until the issuer has been asked successfully
	failed   error                 // of the last time it was asked
	again    time.Time             // when it may be asked again
}

// NewTokens checks the issuers. Nobody is asked anything before the first token comes, so that a control plane starts without them. client fetches key sets;
// nil is http.DefaultClient with a limit of ten seconds.
func NewTokens(trust identity.Trust, issuers []Issuer, now func() time.Time, client *http.Client) (*Tokens, error) {
	if client == nil {
		client = &http.Client{Timeout: 10 * time.Second}
	}
	t := &Tokens{trust: trust, now: now, issuers: map[string]*issuer{}}
	for _, i := range issuers {
		if i.URL == "" {
			return nil, errors.New("an issuer of tokens without a name: want what its tokens have as iss")
		}
		if len(i.Audiences) == 0 {
			i.Audiences = []string{DefaultAudience}
		}
		made := &issuer{Issuer: i, client: client}
		if i.KeysFile != "" {
			keys := &keyFile{path: i.KeysFile}
			if _, err := keys.read(); err != nil {
				return nil, fmt.Errorf("the keys of issuer %s: %w", i.URL, err)
			}
			made.verifier = oidc.NewVerifier(i.URL, keys, t.config())
		}
		t.issuers[i.URL] = made
	}
	return t, nil
}

// config leaves audience and times to this package, whose errors say what to do.
func (t *Tokens) config() *oidc.Config {
	return &oidc.Config{SkipClientIDCheck: true, SkipExpiryCheck: true, SupportedSigningAlgs: algorithms}
}

// claims are what is read of a token beyond its frame. Kubernetes says namespace and account twice; both must agree.
type claims struct {
	NotBefore  *float64 `json:"nbf"`
	Kubernetes *struct {
		Namespace      string `json:"namespace"`
		ServiceAccount struct {
			Name string `json:"name"`
		} `json:"serviceaccount"`
	} `json:"kubernetes.io"`
}

// Authenticate is a Method's.
func (t *Tokens) Authenticate(ctx context.Context, c Credentials) (Caller, error) {
	from, ok := t.issuers[claimedIssuer(c.Token)]
	if !ok {
		return Caller{}, ErrNotMine
	}
	verifier, err := t.verifier(ctx, from)
	if err != nil {
		return Caller{}, err
	}
	token, err := verifier.Verify(ctx, c.Token)
	if err != nil {
		if strings.Contains(err.Error(), "fetching keys") || ctx.Err() != nil {
			return Caller{}, fmt.Errorf("%w: the keys of issuer %s: %w", ErrUnavailable, from.URL, err)
		}
		return Caller{}, refused("the token: %w", err)
	}
	var more claims
	if err := token.Claims(&more); err != nil {
		return Caller{}, refused("the token: %w", err)
	}
	if err := t.check(from, token, more); err != nil {
		return Caller{}, err
	}
	id, err := t.identity(token.Subject, more)
	if err != nil {
		return Caller{}, refused("the token: %w", err)
	}
	return Caller{ID: id, By: "token", Until: token.Expiry}, nil
}

// claimedIssuer is whom a token says it is from, before anything is verified; empty where it is no such token.
func claimedIssuer(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(token) > maxToken {
		return ""
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var c struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(body, &c) != nil {
		return ""
	}
	return c.Issuer
}

// askAgain is how long an issuer that did not answer is left alone: all callers wait for one question.
const askAgain = 2 * time.Second

// verifier asks an issuer where its keys are, once. One that does not answer is asked again with the next token.
func (t *Tokens) verifier(ctx context.Context, i *issuer) (*oidc.IDTokenVerifier, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.verifier != nil {
		return i.verifier, nil
	}
	// The verifier keeps its context for later fetches: it must outlive this call.
	lasting := oidc.ClientContext(context.WithoutCancel(ctx), i.client)
	if i.KeysURL != "" {
		i.verifier = oidc.NewVerifier(i.URL, oidc.NewRemoteKeySet(lasting, i.KeysURL), t.config())
		return i.verifier, nil
	}
	if now := t.now(); now.Before(i.again) {
		return nil, i.failed
	}
	provider, err := oidc.NewProvider(lasting, i.URL)
	if err != nil {
		i.failed = fmt.Errorf("%w: ask issuer %s for its keys: %w", ErrUnavailable, i.URL, err)
		i.again = t.now().Add(askAgain)
		return nil, i.failed
	}
	i.verifier = provider.Verifier(t.config())
	return i.verifier, nil
}

// leeway is how far the clocks of issuer and control plane may differ for a token that is not valid yet.
const leeway = time.Minute

func (t *Tokens) check(from *issuer, token *oidc.IDToken, more claims) error {
	now := t.now()
	if !now.Before(token.Expiry) {
		return refused("the token ended at %s; the control plane's clock says %s", stamp(token.Expiry), stamp(now))
	}
	if more.NotBefore != nil {
		if from := time.Unix(int64(*more.NotBefore), 0); now.Add(leeway).Before(from) {
			return refused("the token is not valid before %s; the control plane's clock says %s", stamp(from), stamp(now))
		}
	}
	for _, a := range from.Audiences {
		if slices.Contains(token.Audience, a) {
			return nil
		}
	}
	return refused("the token is made for audience %q; want one of %q", token.Audience, from.Audiences)
}

func (t *Tokens) identity(subject string, more claims) (identity.ID, error) {
	id, err := identity.FromSubject(t.trust.Domain(), subject)
	if err != nil {
		return identity.ID{}, err
	}
	if k := more.Kubernetes; k != nil && (k.Namespace != id.Namespace || k.ServiceAccount.Name != id.ServiceAccount) {
		return identity.ID{}, fmt.Errorf("its subject is %s, but its kubernetes.io claim says %s/%s", subject, k.Namespace, k.ServiceAccount.Name)
	}
	return id, nil
}
