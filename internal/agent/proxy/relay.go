package proxy

import (
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"fairway/internal/agent/planes"
	"fairway/internal/agent/relay"
	"fairway/internal/agent/secrets"
	"fairway/internal/agent/settings"
	"fairway/internal/agent/token"
	"fairway/internal/envoy/bootstrap"
)

// newRelay makes the part that serves Envoy its configuration; nil if Envoy connects to the control plane directly.
func newRelay(o settings.Options, s *secrets.Secrets, a *agent) (*relay.Relay, error) {
	if o.Relay == nil {
		return nil, nil
	}
	dial := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if o.Relay.Secure && s != nil {
		dial = s.DialOptions(o.Relay.ServerName)
	}
	to := planes.New(o.Bootstrap.Discoveries(), o.Log)
	r, err := relay.New(relay.Options{
		Socket:   o.Relay.Socket,
		Token:    token.Token(o.Bootstrap.Token),
		Address:  to.String(),
		Planes:   to,
		CacheDir: o.Relay.CacheDir,
		Dial:     append(dial, grpc.WithNoProxy()),
		Node:     a.node,
		Handed:   func(typ string) { a.warmingOf(typ).Handed() },
		Answered: func(typ string) { a.warmingOf(typ).Answered() },
		Log:      o.Log,
	})
	if err != nil {
		return nil, &settings.UsageError{Err: err}
	}
	return r, nil
}

// node returns the encoded Node of the serving Envoy, for the agent's own requests to the control plane.
func (a *agent) node() []byte {
	a.mu.Lock()
	p := a.now.Bootstrap
	a.mu.Unlock()
	message, err := bootstrap.NodeMessage(p)
	if err != nil {
		a.log.Error("the agent cannot say who it is", "error", err) // its Envoy could not either, and was not started
		return nil
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		a.log.Error("the agent cannot say who it is", "error", err)
	}
	return raw
}

// relayStatus is for /debug/agent; nil if there is no relay.
func (a *agent) relayStatus() *relay.Status {
	if a.relay == nil {
		return nil
	}
	s := a.relay.Status()
	return &s
}

// collectors returns the metrics of the parts beside Envoy.
func (a *agent) collectors() []prometheus.Collector {
	out := []prometheus.Collector{a.startupMetric()}
	if a.secrets != nil {
		out = append(out, a.secrets.Collector())
	}
	if a.relay != nil {
		out = append(out, a.relay.Collector())
	}
	if a.health != nil {
		out = append(out, a.healthMetric())
	}
	if a.modules != nil {
		out = append(out, a.modules.Collectors()...)
	}
	if a.warming != nil {
		out = append(out, a.warmingMetric())
	}
	if a.names != nil {
		out = append(out, a.names.Collectors()...)
	}
	return out
}
