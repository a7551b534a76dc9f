package secrets

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/workloadapi"
)

// followSPIRE follows SPIFFE's workload API, which renews certificates by itself; its client retries by itself too.
func (s *Secrets) followSPIRE(ctx context.Context) error {
	addr := s.opts.SPIRE
	if !strings.Contains(addr, ":") {
		addr = "unix://" + absolute(addr)
	}
	client, err := workloadapi.New(ctx, workloadapi.WithAddr(addr))
	if err != nil {
		return fmt.Errorf("SPIFFE workload API at %s: %w", addr, err)
	}
	defer client.Close()
	err = client.WatchX509Context(ctx, spireWatcher{s, addr})
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("SPIFFE workload API at %s: %w", addr, err)
}

type spireWatcher struct {
	secrets *Secrets
	addr    string
}

// OnX509ContextUpdate is called with everything that the workload should have.
func (w spireWatcher) OnX509ContextUpdate(got *workloadapi.X509Context) {
	if err := w.take(got); err != nil {
		w.OnX509ContextWatchError(err)
	}
}

func (w spireWatcher) take(got *workloadapi.X509Context) error {
	svid := got.DefaultSVID()
	chain, key, err := svid.Marshal()
	if err != nil {
		return fmt.Errorf("its certificate: %w", err)
	}
	p, err := newPair(chain, key)
	if err != nil {
		return fmt.Errorf("its certificate: %w", err)
	}
	bundle, err := got.Bundles.GetX509BundleForTrustDomain(svid.ID.TrustDomain())
	if err != nil {
		return fmt.Errorf("its roots: %w", err)
	}
	text, err := bundle.Marshal()
	if err != nil {
		return fmt.Errorf("its roots: %w", err)
	}
	t, err := newTrusted(text)
	if err != nil {
		return fmt.Errorf("its roots: %w", err)
	}
	return w.secrets.set(p, t, time.Time{})
}

// OnX509ContextWatchError is called when the API does not answer; the client asks it again.
func (w spireWatcher) OnX509ContextWatchError(err error) {
	if context.Cause(w.secrets.runContext()) != nil {
		return // the agent stops
	}
	err = fmt.Errorf("SPIFFE workload API at %s: %w", w.addr, err)
	w.secrets.fail(DefaultName, err)
	w.secrets.opts.Log.Error("no new certificate; what there is stays", "error", err)
}
