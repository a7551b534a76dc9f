package secrets

import (
	"context"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// resource is a secret as it goes out.
type resource struct {
	version string
	body    *anypb.Any
}

// store holds the served resources by name, and the streams that follow them.
type store struct {
	mu       sync.Mutex
	all      map[string]resource
	changed  chan struct{} // closed and replaced with every change of a resource or of what streams hold
	watchers map[*follower]struct{}
}

// follower is a stream's side of the store; its maps are guarded by the store's mu.
type follower struct {
	wants   map[string]bool
	holds   map[string]string // name → version that the client has accepted
	refused map[string]string // name → version that it has refused
}

func newStore() *store {
	return &store{all: map[string]resource{}, changed: make(chan struct{}), watchers: map[*follower]struct{}{}}
}

// notify wakes all waiters; callers hold mu.
func (s *store) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *store) news() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// put places a resource; the same version changes nothing.
func (s *store) put(name string, r resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[name].version == r.version {
		return
	}
	s.all[name] = r
	s.notify()
}

func (s *store) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, name)
}

func (s *store) get(name string) (resource, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.all[name]
	return r, ok
}

// follow adds a stream.
func (s *store) follow() *follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &follower{wants: map[string]bool{}, holds: map[string]string{}, refused: map[string]string{}}
	s.watchers[f] = struct{}{}
	return f
}

func (s *store) unfollow(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, f)
	s.notify()
}

// update changes what a stream wants or holds.
func (s *store) update(f *follower, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	s.notify()
}

// followers returns how many streams follow a name, and how many of them accepted, or refused, its version.
func (s *store) followers(name string) (all, current, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	version := s.all[name].version
	for f := range s.watchers {
		if !f.wants[name] {
			continue
		}
		all++
		if f.holds[name] == version {
			current++
		}
		if f.refused[name] == version {
			refused++
		}
	}
	return all, current, refused
}

// settled waits until every stream has accepted the newest version of each existing resource that it follows.
func (s *store) settled(ctx context.Context) error {
	for {
		s.mu.Lock()
		news, behind := s.changed, false
		for f := range s.watchers {
			for name := range f.wants {
				r, there := s.all[name]
				behind = behind || there && f.holds[name] != r.version
			}
		}
		s.mu.Unlock()
		if !behind {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// certificateResource returns a certificate with its key, as Envoy takes it.
func certificateResource(name string, p *pair) (resource, error) {
	body, err := anypb.New(&tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: inline(p.chain), PrivateKey: inline(p.key.PEM()),
	}}})
	return resource{digest(p.chain), body}, err
}

// rootResource returns roots and CRLs, as Envoy takes them.
func rootResource(name string, t *trusted) (resource, error) {
	v := &tlsv3.CertificateValidationContext{TrustedCa: inline(t.roots), OnlyVerifyLeafCertCrl: t.onlyLeafLists()}
	if len(t.crl) > 0 {
		v.Crl = inline(t.crl)
	}
	body, err := anypb.New(&tlsv3.Secret{Name: name, Type: &tlsv3.Secret_ValidationContext{ValidationContext: v}})
	return resource{digest(t.roots, t.crl), body}, err
}

func inline(text []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: text}}
}
