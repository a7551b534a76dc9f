package hooks

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"golang.org/x/time/rate"

	"fairway/internal/webhook/place"
	"fairway/internal/writes/follow"
)

// A key is written five times in a row into one configuration, then once in ten minutes: without this bound, a program that removes the key
// each time (for example one that keeps a cluster equal to a repository) would cause writes without end.
const (
	rewrites    = 5
	rewriteWait = 10 * time.Minute
)

// errKeyRemoved reports that another program removes the key again and again.
var errKeyRemoved = errors.New("the key is removed from the webhook's path again and again; set sidecarInjectorWebhook.key in the " +
	"chart's values, or have what removes it ignore webhooks[*].clientConfig")

// keyring holds the written key of each configuration, by the configuration's name.
type keyring map[string]*written

type written struct {
	key   string
	limit *rate.Limiter
}

// fill adds the key to the clients of the webhooks of one configuration that inject pods and do not have it. The configuration's own
// key counts, then the last one that was written there, then a new one.
func (k keyring) fill(name string, all []hook, clients []client) error {
	held, lacks := "", false
	for _, h := range all {
		key, injects := h.key()
		held = max(held, key) // any of them; replicas accept each
		lacks = lacks || injects && key == ""
	}
	w := k[name]
	if w == nil {
		w = &written{limit: rate.NewLimiter(rate.Every(rewriteWait), rewrites)}
		k[name] = w
	}
	if held != "" {
		w.key = held
	}
	if !lacks {
		return nil
	}
	if w.key == "" {
		w.key = strings.ToLower(rand.Text())
	}
	if w.limit.Tokens() < 1 {
		return errKeyRemoved
	}
	for i, h := range all {
		key, injects := h.key()
		if !injects || key != "" {
			continue
		}
		if h.url == "" {
			clients[i].Service = &service{place.WithKey(h.path, w.key)}
			continue
		}
		to, err := place.URLWithKey(h.url, w.key)
		if err != nil {
			return fmt.Errorf("webhook %s: %w", h.name, err)
		}
		clients[i].URL = to
	}
	return nil
}

// spend counts that clients have been written into a configuration.
func (k keyring) spend(name string, clients []client) {
	if slices.ContainsFunc(clients, func(c client) bool { return c.Service != nil || c.URL != "" }) {
		k[name].limit.Allow()
	}
}

// Keys knows which keys API servers show to the webhook of injection. Many goroutines may ask it.
type Keys struct {
	o        Options
	follower *follow.Follower[[]hook]

	mu     sync.Mutex
	failed bool // a list was refused, so the configurations may never be known
	all    []string
	open   bool // a configuration has no key yet
}

// NewKeys returns Keys that know no key yet. It needs Client, Revision and Report of the options.
func NewKeys(o Options) *Keys {
	k := &Keys{o: o}
	configurations := o.Client.MutatingWebhooks()
	k.follower = follow.New(mutating(o,
		func(ctx context.Context, by metav1.ListOptions) (*admissionv1.MutatingWebhookConfigurationList, error) {
			list, err := configurations.List(ctx, by)
			if err != nil {
				k.mu.Lock()
				k.failed = true
				k.mu.Unlock()
			}
			return list, err
		},
		func(string, string) { k.read() }))
	return k
}

// Run follows the configurations until ctx ends.
func (k *Keys) Run(ctx context.Context) { k.follower.Run(ctx) }

// read reads the keys of all configurations. There are as many of these as the revision has names.
func (k *Keys) read() {
	var all []string
	open := false
	k.follower.Each(func(_, name string, hooks []hook) {
		if !ours(name, false) {
			return
		}
		for _, h := range hooks {
			key, injects := h.key()
			if key != "" {
				all = append(all, key)
			}
			open = open || injects && key == ""
		}
	})
	slices.Sort(all)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all, k.open = slices.Compact(all), open
}

// Known reports whether a caller that shows a key may be an API server: a configuration of this revision contains the key, or one of the
// configurations has no key yet, so that API servers show none. An error: the configurations have not been read yet.
func (k *Keys) Known(key string) (bool, error) {
	synced := k.follower.Synced()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !synced && !k.failed {
		return false, errors.New("the configurations of webhooks have not been read yet")
	}
	known := 0
	for _, one := range k.all {
		known |= subtle.ConstantTimeCompare([]byte(one), []byte(key))
	}
	return known == 1 || k.open, nil
}
