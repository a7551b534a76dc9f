package agent

import (
	"path/filepath"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"fairway/internal/agent/relay"
	"fairway/internal/agent/secrets"
	"fairway/internal/agent/token"
	"fairway/internal/envoy/bootstrap"
)

// relaySocket and relayCache are names in the configuration's folder; Istio's agent calls its socket so too.
const (
	relaySocket = "XDS"
	relayCache  = "xds-cache"
)

// defaultDiscovery is where the control plane is unless something else is said; securePort is where it believes
// workloads by their certificate or token. Both as Istio has them.
const (
	defaultDiscovery = "istiod.istio-system.svc:15010"
	securePort       = 15012
)

// Relay says how Envoy reaches the control plane through this agent.
type Relay struct {
	Socket   string // of the relay
	CacheDir string // keeps what Envoy holds; empty: nothing is kept
	// Secure is TLS as the workload: with its certificate or token, to whom its roots vouch for. Otherwise it is plaintext.
	Secure     bool
	ServerName string // in the control plane's certificate; empty: what the address says
}

// resolveRelay decides whether Envoy speaks to the control plane through the agent: where the flag or XDS_RELAY says
// so, and by itself where the control plane is reached as the workload, which Envoy alone cannot do, and where the
// agent itself has something to say. That is at port 15012, which is also where a workload with an identity goes that
// was told of no control plane.
func resolveRelay(f Flags, env Environment, o *Options) error {
	authority := authorityOf(o.Secrets)
	to := &o.Bootstrap.Discovery
	if authority != nil && to.String() == defaultDiscovery {
		to.Port = securePort
	}
	secure := hasIdentity(o.Secrets) && (to.Port == securePort || authority != nil && authority.Address == to.String())
	on := secure || o.Health != nil
	said, from := f.XDSRelay, "--xdsRelay"
	if said == "" {
		said, from = env.Vars["XDS_RELAY"], "XDS_RELAY"
	}
	if said != "" {
		var err error
		if on, err = strconv.ParseBool(said); err != nil {
			return usage("%s: %q is neither true nor false", from, said)
		}
	}
	if said != "" && !on && o.Names != nil {
		return usage("%s: ISTIO_META_DNS_CAPTURE has the agent resolve the names of the mesh, which it has from the relay only", from)
	}
	on = on || o.Names != nil
	if secure && !on {
		return usage(
			"%s: the control plane at %s wants TLS as the workload, which Envoy has from the relay only; name its "+
				"plaintext port with --discoveryAddress",
			from,
			to,
		)
	}
	if !on && o.Health != nil {
		return usage("%s: without the relay nobody hears how readinessProbe finds the application; leave one of them out", from)
	}
	if !on {
		return nil
	}
	o.Relay = &Relay{Socket: filepath.Join(o.ConfigDir, relaySocket), CacheDir: filepath.Join(o.ConfigDir, relayCache), Secure: secure}
	if authority != nil {
		o.Relay.ServerName = authority.ServerName
	}
	o.Bootstrap.DiscoverySocket = o.Relay.Socket
	return nil
}

func authorityOf(s *secrets.Options) *secrets.Authority {
	if s == nil {
		return nil
	}
	return s.Authority
}

func hasIdentity(s *secrets.Options) bool {
	return s != nil && (s.Authority != nil || s.SPIRE != "" || s.Files != nil)
}

// newRelay makes the part that serves Envoy its configuration; nil where Envoy asks the control plane itself. node is
// who the agent speaks as.
func newRelay(o Options, s *secrets.Secrets, node func() []byte) (*relay.Relay, error) {
	if o.Relay == nil {
		return nil, nil
	}
	to := o.Bootstrap.Discovery.String()
	dial := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if o.Relay.Secure && s != nil {
		dial = s.DialOptions(to, o.Relay.ServerName)
	}
	r, err := relay.New(relay.Options{
		Socket:   o.Relay.Socket,
		Token:    token.Token(o.Bootstrap.Token),
		Address:  to,
		CacheDir: o.Relay.CacheDir,
		Dial:     append(dial, grpc.WithNoProxy()),
		Node:     node,
		Log:      o.Log,
	})
	if err != nil {
		return nil, &UsageError{err}
	}
	return r, nil
}

// node is the encoded Node of the serving Envoy, for what the agent itself asks of the control plane.
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

// keepParts has renewed options go on with the sockets of what runs beside Envoy, which stays as long as the agent.
func (o *Options) keepParts(first Options) {
	o.Secrets, o.Names, o.Relay, o.Health = first.Secrets, first.Names, first.Relay, first.Health
	o.Bootstrap.Discovery = bootstrapDiscovery(o.Bootstrap, first)
	o.Bootstrap.SecretsSocket, o.Bootstrap.DiscoverySocket = first.Bootstrap.SecretsSocket, first.Bootstrap.DiscoverySocket
	o.Bootstrap.Token, o.Bootstrap.AdminSocket, o.Bootstrap.AdminMoved = first.Bootstrap.Token, first.Bootstrap.AdminSocket,
		first.Bootstrap.AdminMoved
	o.Bootstrap.DrainFile = first.Bootstrap.DrainFile
}

// bootstrapDiscovery is where the control plane is: with a relay, where that was told to look for it.
func bootstrapDiscovery(now bootstrap.Params, first Options) bootstrap.HostPort {
	if first.Relay != nil {
		return first.Bootstrap.Discovery
	}
	return now.Discovery
}

// relayStatus is for /debug/agent; nil where there is none.
func (a *agent) relayStatus() *relay.Status {
	if a.relay == nil {
		return nil
	}
	s := a.relay.Status()
	return &s
}

// collectors are the metrics of what runs beside Envoy.
func (a *agent) collectors() []prometheus.Collector {
	var out []prometheus.Collector
	if a.relay != nil {
		out = append(out, a.relay.Collector())
	}
	if a.health != nil {
		out = append(out, a.healthMetric())
	}
	if a.names != nil {
		out = append(out, a.names.Collectors()...)
	}
	return out
}
