package review

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/printable"
)

// Options of Tokens.
type Options struct {
	Cluster   string       // the cluster of the API server, for Caller.Cluster; may be empty
	Config    *rest.Config // how to reach the API server; it needs the right to create tokenreviews
	Trust     identity.Trust
	Audiences []string // a token must name one of them; empty: authn.DefaultAudience
	Now       func() time.Time
	Log       *slog.Logger // has the API server's errors, which callers do not see
}

// Tokens admits those who show a token of a service account of one cluster. It is an authn.Method.
type Tokens struct {
	o      Options
	client *rest.RESTClient
	asking chan struct{} // has one for each question under way
	shared singleflight.Group
	// clockOnce is used to log only once that clocks differ.
	clockOnce sync.Once
	known     answers
}

var _ authn.Method = (*Tokens)(nil)

// Bounds.
const (
	questions  = 16               // at once
	answerTime = 5 * time.Second  // for one question, the wait for its turn included
	believed   = time.Minute      // how long a token is accepted that the API server knew
	disbelief  = 10 * time.Second // how long one is refused that it did not know
	maxAnswer  = 1 << 20          // bytes of one
	// Clocks differ, and the API server's clock decides whether a token has expired. A token that expired by this program's clock is still
	// reviewed for so long (clocks). If the API server accepts it, it counts for disagreed, because its expiry by this clock is unknown.
	// But an API server with a right clock accepts a token for a minute after its expiry, and caches that for ten seconds. So a token that
	// expired within leeway counts only for atEnd, and is then reviewed again.
	clocks    = 24 * time.Hour
	disagreed = 10 * time.Minute
	leeway    = 75 * time.Second
	atEnd     = 10 * time.Second
)

// bounded limits the size of API servers' answers, because these servers may not be trusted.
type bounded struct{ next http.RoundTripper }

// RoundTrip is http.RoundTripper's.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err == nil {
		answer.Body = http.MaxBytesReader(nil, answer.Body, maxAnswer)
	}
	return answer, err
}

// New prepares the method. It calls no server yet.
func New(o Options) (*Tokens, error) {
	if len(o.Audiences) == 0 {
		o.Audiences = []string{authn.DefaultAudience}
	}
	scheme := runtime.NewScheme()
	if err := authenticationv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	own := rest.CopyConfig(o.Config)
	own.QPS = -1 // questions are bounded here
	own.UserAgent = "pilot-discovery"
	own.APIPath, own.GroupVersion = "/apis", &authenticationv1.SchemeGroupVersion
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	own.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next} })
	reach, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("review tokens: %w", err)
	}
	staying := *reach // tokens are not sent elsewhere by redirects
	staying.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client, err := rest.RESTClientForConfigAndClient(own, &staying)
	if err != nil {
		return nil, fmt.Errorf("review tokens: %w", err)
	}
	return &Tokens{o: o, client: client, asking: make(chan struct{}, questions), known: newAnswers()}, nil
}

// Authenticate implements Method.
func (t *Tokens) Authenticate(ctx context.Context, c authn.Credentials) (authn.Caller, error) {
	said, ok := read(c.Token)
	if !ok {
		return authn.Caller{}, authn.ErrNotMine
	}
	now := t.o.Now()
	if err := said.check(t.o.Audiences, now); err != nil {
		return authn.Caller{}, err
	}
	key := sha256.Sum256([]byte(c.Token))
	if a, ok := t.known.get(key, now); ok {
		return a.caller, a.err
	}
	done := t.shared.DoChan(string(key[:]), func() (any, error) {
		// If the first of several waiting callers gives up, the request goes on for the others.
		asked, stop := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
		defer stop()
		a := t.ask(asked, c.Token, said)
		if errors.Is(a.err, authn.ErrUnavailable) {
			return a, nil
		}
		a.until = t.o.Now().Add(disbelief)
		if a.err == nil {
			a.until = earlier(t.o.Now().Add(believed), a.caller.Until)
		}
		t.known.put(key, a, t.o.Now())
		return a, nil
	})
	select {
	case <-ctx.Done():
		return authn.Caller{}, fmt.Errorf("%w: %w", authn.ErrUnavailable, ctx.Err())
	case r := <-done:
		a := r.Val.(answer)
		return a.caller, a.err
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// ask has the API server review a token.
func (t *Tokens) ask(ctx context.Context, token string, said claims) answer {
	select {
	case t.asking <- struct{}{}:
		defer func() { <-t.asking }()
	case <-ctx.Done():
		return answer{err: unavailable()}
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: t.o.Audiences}}
	out := &authenticationv1.TokenReview{}
	if err := t.client.Post().Resource("tokenreviews").Body(review).Do(ctx).Into(out); err != nil {
		t.o.Log.Warn("a token cannot be reviewed", "error", printable.Text(err.Error(), printable.Long))
		return answer{err: unavailable()}
	}
	caller, err := t.caller(out.Status, said)
	if err != nil {
		t.o.Log.Info("a token was refused", "account", printable.Text(said.Subject, printable.Short),
			"error", printable.Text(out.Status.Error, printable.Long))
	}
	return answer{caller: caller, err: err}
}

func unavailable() error {
	return fmt.Errorf("%w: the cluster's API server does not review tokens now", authn.ErrUnavailable)
}

// caller returns the caller of a token according to the API server.
func (t *Tokens) caller(s authenticationv1.TokenReviewStatus, said claims) (authn.Caller, error) {
	if !s.Authenticated {
		return authn.Caller{}, refused(
			"the cluster's API server does not know this token: it has ended, was revoked, or is another cluster's")
	}
	if !slices.ContainsFunc(s.Audiences, func(a string) bool { return slices.Contains(t.o.Audiences, a) }) {
		return authn.Caller{}, refused("the cluster's API server does not take it for audience %q", t.o.Audiences)
	}
	id, err := identity.FromSubject(t.o.Trust.Domain(), s.User.Username)
	if err != nil {
		return authn.Caller{}, refused("the token is of no service account: %w", err)
	}
	until := said.end()
	if now := t.o.Now(); !now.Before(until) {
		if now.Sub(until) > leeway {
			t.clockOnce.Do(func() {
				t.o.Log.Warn("the API server's clock is behind the control plane's, or this one is ahead: "+
					"it accepts a token that has expired here",
					"account", printable.Text(said.Subject, printable.Short), "ended", stamp(until), "now", stamp(now))
			})
			until = now.Add(disagreed)
		} else {
			until = now.Add(atEnd)
		}
	}
	return authn.Caller{ID: id, By: "token", Until: until, Cluster: t.o.Cluster}, nil
}

// claims are a token's own claims.
type claims struct {
	Subject  string   `json:"sub"`
	Audience audience `json:"aud"`
	Expiry   float64  `json:"exp"`
}

// audience is a string or a list of some.
type audience []string

// UnmarshalJSON accepts both.
func (a *audience) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(a))
}

// read returns the claims of a token before it is verified; false if it is not a service account's.
func read(token string) (out claims, ok bool) {
	if body, ok := authn.Payload(token); !ok || json.Unmarshal(body, &out) != nil {
		return out, false
	}
	return out, strings.HasPrefix(out.Subject, "system:serviceaccount:")
}

// farthest is the latest expiry that is used, because a token's own may be later than a clock can show.
const farthest = 1 << 40

func (c claims) end() time.Time { return time.Unix(int64(min(max(c.Expiry, 0), farthest)), 0) }

// check refuses tokens that need no review.
func (c claims) check(audiences []string, now time.Time) error {
	if !slices.ContainsFunc(c.Audience, func(a string) bool { return slices.Contains(audiences, a) }) {
		return refused("the token is made for audience %.200q; want one of %q", []string(c.Audience), audiences)
	}
	if end := c.end(); !now.Before(end.Add(clocks)) {
		return refused("the token ended at %s; the control plane's clock says %s", stamp(end), stamp(now))
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %w", authn.ErrRefused, fmt.Errorf(format, args...))
}
