package histories

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"fairway/internal/app"
	"fairway/internal/app/sharing"
	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/test/gate"
	"fairway/test/platform/registry/consulserver"
	"fairway/test/platform/registry/etcdserver"
)

// TestTwins: the same histories, over two control planes with their state in a real etcd or Consul. The proxies are spread over both. At
// each end one of the two ends, and all proxies change places. Now and then one of them is cut from the store while the folder changes.
// Each proxy holds the same, byte for byte, as from a control plane that was just started. After each step a token is shown to
// both at once, and a certificate is revoked: the token is used once, and both give out the same roots and lists.
func TestTwins(t *testing.T) {
	for _, kind := range []string{"etcd", "consul"} {
		t.Run(kind, func(t *testing.T) {
			var address string
			if kind == "etcd" {
				address = etcdserver.Start(t, etcdserver.Options{}).Address()
			} else {
				address = consulserver.Start(t, consulserver.Options{}).Address()
			}
			gates := [2]*gate.Gate{gate.New(t, address), gate.New(t, address)}
			at := func(address string) string { return kind + "://" + address + "/twins" }
			shared := newPlanes(t, func(o *app.Options) { o.Identity.Sharing.State = at(address) })
			where := sharing.Options{State: at(address)}
			store, err := where.Open(slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(store.Close)
			hunt(t, hunting{usual: 30, fit: alike, patience: time.Minute}, func(t *testing.T, seed uint64) (*player, error) {
				folder, err := newFolder(t.TempDir())
				if err != nil {
					return nil, err
				}
				p := *shared
				p.folder, p.linger, p.grace = folder, time.Hour, 0
				w := &twins{
					t: t, planes: p, folder: folder, gates: gates, at: at, steps: int(seed % 10), store: sharing.Kept{Shared: store},
				}
				t.Cleanup(w.end)
				return &player{
					world: w, clients: map[string]*client{}, said: map[string]saying{}, start: w.start,
					anew: func(ctx context.Context) (control, error) { return p.start(ctx) },
				}, nil
			})
		})
	}
}

// alike removes what makes two control planes differ for a while, as it should: an agent's report, and a machine, come to one of them.
func alike(s script) script {
	s = quietly(s)
	for _, st := range s {
		for _, a := range st {
			if a.Connect != nil {
				delete(a.Connect.Metadata, groupField)
			}
		}
	}
	return s
}

// twins are two control planes over one folder and one store; they are the world, too, because its changes come with cuts of the store.
type twins struct {
	t      *testing.T
	planes planes
	folder *folder
	gates  [2]*gate.Gate               // their ways to the store
	at     func(address string) string // makes --state
	store  sharing.Kept                // the test's own way to the store

	all   [2]*inProcess // nil: it has ended
	ends  int           // how many have ended
	steps int
	cut   *gate.Gate // that is closed; nil: none
	left  []string   // serial numbers that were revoked
}

// do implements world.
func (w *twins) do(a action) { w.folder.do(a) }

// write implements world.
func (w *twins) write(ctx context.Context) error {
	if w.steps++; w.steps%5 == 0 && w.all[0] != nil && w.all[1] != nil {
		w.cut = w.gates[w.steps/5%2]
		w.cut.Close()
	}
	return w.folder.write(ctx)
}

// mend implements late: the store is there again for both.
func (w *twins) mend(ctx context.Context) error {
	w.reopen()
	return w.agree(ctx)
}

func (w *twins) reopen() {
	if w.cut != nil {
		w.cut.Open(w.t)
		w.cut = nil
	}
}

// start implements player.start: the one that has ended starts again, or both start.
func (w *twins) start(ctx context.Context) (control, error) {
	for i := range w.all {
		if w.all[i] != nil {
			continue
		}
		p := w.planes
		p.options.Identity.Sharing.State = w.at(fmt.Sprintf("127.0.0.1:%d", w.gates[i].Port()))
		var err error
		if w.all[i], err = p.start(ctx); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// stop implements control: one of the two ends.
func (w *twins) stop() error {
	i := w.ends % 2
	w.ends++
	if w.all[i] == nil {
		return nil
	}
	err := w.all[i].stop()
	w.all[i] = nil
	return err
}

// end ends both.
func (w *twins) end() {
	for i, c := range w.all {
		if c != nil {
			_ = c.stop()
			w.all[i] = nil
		}
	}
	w.reopen()
}

// of returns the one that a proxy is at: after each end it is the other one.
func (w *twins) of(p *proxy) *inProcess {
	h := fnv.New32a()
	_, _ = h.Write([]byte(p.Name)) // never fails
	return w.all[(int(h.Sum32()%2)+w.ends)%2]
}

func (w *twins) exact() bool      { return false }
func (w *twins) problems() string { return w.all[0].problems() }

func (w *twins) dial(p *proxy) (string, credentials.TransportCredentials) { return w.of(p).dial(p) }

// settle implements control.
func (w *twins) settle(ctx context.Context, other control, clients []*client) error {
	if other == control(w) {
		other = nil
	}
	for i, c := range w.all {
		var own []*client
		for _, x := range clients {
			if w.of(&x.proxy) == c {
				own = append(own, x)
			}
		}
		if err := c.settle(ctx, other, own); err != nil {
			return fmt.Errorf("control plane %d: %w", i, err)
		}
	}
	return nil
}

// agree has both be told something, and waits until they say the same of it.
func (w *twins) agree(ctx context.Context) error {
	id := identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "late"}
	token, err := w.store.Tokens().Create(id, time.Hour)
	if err != nil {
		return err
	}
	serial := fmt.Sprintf("%x%02x", w.steps+1, len(w.left))
	if err := w.store.Revocations().RevokeSerial(serial, "", true); err != nil {
		return err
	}
	w.left = append(w.left, serial)
	used := 0
	for _, i := range []int{w.steps % 2, (w.steps + 1) % 2} {
		err := w.wait(ctx, func() error { // one that was cut off finds its way back
			err := admit(ctx, w.all[i].discovery.JoinTokens(), token)
			if errors.Is(err, authn.ErrUnavailable) {
				return err
			}
			if err == nil {
				used++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if used != 1 {
		return fmt.Errorf("a token was used %d times", used)
	}
	return w.wait(ctx, func() error {
		one, two := w.all[0].discovery.Authority(), w.all[1].discovery.Authority()
		if lists := one.Status().Lists; !bytes.Equal(one.Roots(), two.Roots()) || len(lists) != 1 || lists[0].Revoked < len(w.left) {
			return fmt.Errorf("the two say other things of the authority: %+v, %+v", one.Status(), two.Status())
		}
		return nil
	})
}

// admit shows a token with a new key.
func admit(ctx context.Context, to *authn.JoinTokens, token string) error {
	caller, err := to.Authenticate(ctx, authn.Credentials{Token: token})
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return caller.Bind(key.Public())
}

func (w *twins) wait(ctx context.Context, holds func() error) error {
	for {
		err := holds()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}
