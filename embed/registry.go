package embed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"fairway/internal/config"
	"fairway/internal/printable"
	"fairway/internal/source/api"
	"fairway/internal/source/platform"
)

// RegistryOptions are those of a [Registry]. The zero value is useful.
type RegistryOptions struct {
	// Name tells the registries of a program apart; empty: "embedded". Problems and pages call it "Memory/<name>".
	Name string
	// Host is the template of services' host names, out of {name} and {namespace}; empty:
	// "{name}.{namespace}.svc.cluster.local", by which a service of a Kubernetes cluster is the same host.
	Host string
	// Protocol is what ports speak that say nothing, as Istio's API names it; empty: it is found out.
	Protocol string
	// StateFile keeps what is put, so that a restart loses nothing; empty: a restart begins with nothing.
	StateFile string
	// AwaitSnapshot has proxies wait until the first [Registry.Replace] after a start without a state, so that a restart takes
	// nothing away from them.
	AwaitSnapshot bool
	// Address is where the registry is served by HTTP too, as host:port; empty: nowhere. docs/registries/memory.md describes it.
	Address string
	// CertFile, KeyFile and TokenFile are needed where other machines reach Address: the server's certificate and key, and the
	// tokens that clients show, one a line.
	CertFile, KeyFile, TokenFile string
	// Log gets what happens on its own; nil: nobody does.
	Log *slog.Logger
}

// Registry holds what a program put into it. It is one of a control plane's, and keeps what it has before and after that runs.
type Registry struct{ source *api.Source }

// NewRegistry returns an empty registry, or one with what StateFile holds. An option that is wrong is an error that names it.
func NewRegistry(o RegistryOptions) (*Registry, error) {
	if o.Name == "" {
		o.Name = "embedded"
	}
	if len(o.Name) > 63 || !printable.Is(o.Name, 63) {
		return nil, fmt.Errorf("name: %q; want at most 63 letters, digits, '-', '_' and '.'", printable.Text(o.Name, printable.Short))
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		return nil, err
	}
	s, err := api.New("Memory/"+o.Name, api.Options{
		Address: o.Address, CertFile: o.CertFile, KeyFile: o.KeyFile, TokenFile: o.TokenFile, StateFile: o.StateFile,
		AwaitSnapshot: o.AwaitSnapshot, Naming: platform.Naming{Host: o.Host, Protocol: o.Protocol},
	}, o.Log, decoder)
	if err != nil {
		return nil, err
	}
	return &Registry{s}, nil
}

// Service is a name with all that serves it.
type Service struct {
	Namespace string // as a Kubernetes namespace is called
	Name      string
	Host      string   // by which clients call it; empty: the registry's template says
	Protocol  string   // that ports speak which say none: "http", "grpc", "tcp", …; empty: the registry's
	Port      uint32   // that clients address; 0: each port of instances is one of the service
	Addresses []string // virtual IPs that clients address
	ExportTo  []string // namespaces that may see it; empty: all
	External  bool     // it is not a part of the mesh: no mutual TLS is expected of it
	// Instances serve it. Where a service is put, nil leaves those that it has; an empty list takes them away.
	Instances []Instance
}

// Instance is one place that serves a service.
type Instance struct {
	ID        string   // tells the instances of a service apart
	Addresses []string // IPs, the first one first; or one DNS name
	Port      uint32   // that it listens on; or
	Ports     []Port   // those that it listens on, by name
	Labels    map[string]string
	Locality  string // region/zone/subzone
	Network   string
	Identity  string        // service account, or SPIFFE id
	Weight    uint32        // 0: as all others that say nothing
	Health    Health        // the zero value: Healthy
	TTL       time.Duration // it goes when it is not put again within that time, at least a second; 0: it stays
}

// Port is one that an instance listens on.
type Port struct {
	Name     string
	Number   uint32
	Protocol string // empty: the service's
}

// Health is whether an instance takes traffic.
type Health string

// The states of an instance. A Draining one keeps its connections and gets no new ones.
const (
	Healthy   Health = ""
	Unhealthy Health = "unhealthy"
	Draining  Health = "draining"
)

// Snapshot is all there is of services, of rules, or of both.
type Snapshot struct {
	Services []Service // nil leaves those that are there
	Objects  []string  // Istio's rules as YAML or JSON, one each; nil leaves those that are there
}

// Problem is something that does not do what it says.
type Problem struct {
	Severity string // "error": it is not in force; "warning"; "info"
	Code     string // one word per kind of mistake; docs/problems.md describes each
	Object   string // what it is about: "VirtualService shop/reviews"
	Field    string // path inside of that; empty: all of it
	Message  string // what is wrong
	Fix      string // what would be right; empty where nothing can be said
}

func (p Problem) String() string {
	out := p.Severity + ": " + p.Object
	if p.Field != "" {
		out += " " + p.Field
	}
	if out += ": " + p.Message; p.Fix != "" {
		out += "; " + p.Fix
	}
	return out
}

// Refused is the error of what was not taken. Nothing of it counts.
type Refused struct {
	Reason   string
	Problems []Problem
}

func (r *Refused) Error() string {
	out := r.Reason
	for _, p := range r.Problems {
		if p.Severity == "error" {
			out += "; " + p.String()
		}
	}
	return out
}

// PutService puts a service in the place of what there is of it. The error is a [*Refused], or says that StateFile could
// not be written; then what was put is in force all the same.
func (r *Registry) PutService(s Service) error {
	_, err := r.source.PutService(s.inner(), api.Condition{})
	return outer(err)
}

// DeleteService takes a service away. One that is not there is no error.
func (r *Registry) DeleteService(namespace, name string) error {
	_, err := r.source.DeleteService(namespace, name, api.Condition{})
	return known(err)
}

// PutInstance puts one instance of a service, and lets those that the service has beside it stay. A service that is not
// there is made, of its name alone. Errors are as those of [Registry.PutService].
func (r *Registry) PutInstance(namespace, name string, in Instance) error {
	_, err := r.source.PutInstance(namespace, name, in.inner(), api.Condition{})
	return outer(err)
}

// DeleteInstance takes one instance of a service away. One that is not there is no error.
func (r *Registry) DeleteInstance(namespace, name, id string) error {
	_, err := r.source.DeleteInstance(namespace, name, id, api.Condition{})
	return known(err)
}

// PutObject puts one of Istio's rules, as YAML or JSON, in the place of that of its kind, namespace and name. Errors are as
// those of [Registry.PutService].
func (r *Registry) PutObject(text string) error {
	_, err := r.source.PutObject("", "", "", []byte(text), api.Condition{})
	return outer(err)
}

// DeleteObject takes a rule away. One that is not there is no error.
func (r *Registry) DeleteObject(kind, namespace, name string) error {
	_, err := r.source.DeleteObject(kind, namespace, name, api.Condition{})
	return known(err)
}

// Replace makes all services, all rules, or both what the snapshot says, at once: what is not in it goes, and no proxy sees
// half of it. What is as it was changes nothing. Errors are as those of [Registry.PutService].
func (r *Registry) Replace(all Snapshot) error {
	var in api.Snapshot
	if all.Services != nil {
		in.Services = make([]api.Service, len(all.Services))
		for i, s := range all.Services {
			in.Services[i] = s.inner()
		}
	}
	if all.Objects != nil {
		in.Objects = make([][]byte, len(all.Objects))
		for i, text := range all.Objects {
			in.Objects[i] = []byte(text)
		}
	}
	_, err := r.source.Replace(in, api.Condition{})
	return outer(err)
}

// Addr waits until the registry is served by HTTP, and returns where: with the port that was chosen where Address has port 0.
func (r *Registry) Addr(ctx context.Context) (string, error) { return r.source.Addr(ctx) }

func (s Service) inner() api.Service {
	out := api.Service{
		Namespace: s.Namespace, Name: s.Name, Host: s.Host, Protocol: s.Protocol, Port: s.Port,
		Addresses: s.Addresses, ExportTo: s.ExportTo, External: s.External,
	}
	if s.Instances != nil {
		out.Instances = make(api.Instances, len(s.Instances))
		for i, in := range s.Instances {
			out.Instances[i] = in.inner()
		}
	}
	return out
}

func (in Instance) inner() api.Instance {
	out := api.Instance{
		ID: in.ID, Addresses: in.Addresses, Port: in.Port, Labels: in.Labels, Locality: in.Locality, Network: in.Network,
		Identity: in.Identity, Weight: in.Weight, Health: string(in.Health),
	}
	if in.TTL != 0 {
		out.TTL = in.TTL.String()
	}
	for _, p := range in.Ports {
		out.Ports = append(out.Ports, api.Port(p))
	}
	return out
}

// outer is an error as callers have it.
func outer(err error) error {
	var why *api.Refusal
	if !errors.As(err, &why) {
		return err
	}
	return &Refused{why.Message, problems(why.Problems)}
}

// known is outer, but for what is not there.
func known(err error) error {
	var why *api.Refusal
	if errors.As(err, &why) && why.Missing() {
		return nil
	}
	return outer(err)
}
