package registries

import (
	"context"
	"sync"

	"fairway/internal/app/machines"
	"fairway/internal/source"
	"fairway/internal/source/api"
	"fairway/internal/source/consul"
	"fairway/internal/source/etcd"
	"fairway/internal/source/eureka"
	"fairway/internal/source/mcpxds"
	"fairway/internal/source/nomad"
	"fairway/internal/source/zookeeper"
	"fairway/internal/store/shared"
)

// kinds are those of registries, by the field that an entry gives. A new kind is a field here and its options below.
type kinds struct {
	Consul    *consulOptions    `json:"consul,omitempty"`
	Nomad     *nomadOptions     `json:"nomad,omitempty"`
	Eureka    *eurekaOptions    `json:"eureka,omitempty"`
	ZooKeeper *zookeeperOptions `json:"zookeeper,omitempty"`
	Etcd      *etcdOptions      `json:"etcd,omitempty"`
	MCP       *mcpOptions       `json:"mcp,omitempty"`
	Memory    *memoryOptions    `json:"memory,omitempty"`
}

// sourceNames are the names of the sources of each kind, by its field.
var sourceNames = map[string]string{
	"consul": "Consul", "nomad": "Nomad", "eureka": "Eureka", "zookeeper": "ZooKeeper", "etcd": "etcd", "mcp": "MCP",
	"memory": "Memory",
}

type (
	consulOptions    struct{ consul.Options }
	nomadOptions     struct{ nomad.Options }
	eurekaOptions    struct{ eureka.Options }
	zookeeperOptions struct{ zookeeper.Options }
	etcdOptions      struct {
		etcd.Options
		// ShareMachines shares registered machines with the other control planes of the mesh.
		ShareMachines bool `json:"shareMachines"`
	}
	mcpOptions    struct{ mcpxds.Options }
	memoryOptions struct{ api.Options }
)

func (o *consulOptions) source(name string, env Env) (source.Source, error) {
	return consul.New(name, o.Options, env.Log)
}

func (o *nomadOptions) source(name string, env Env) (source.Source, error) {
	return nomad.New(name, o.Options, env.Log)
}

func (o *eurekaOptions) source(name string, env Env) (source.Source, error) {
	return eureka.New(name, o.Options, env.Log)
}

func (o *zookeeperOptions) source(name string, env Env) (source.Source, error) {
	return zookeeper.New(name, o.Options, env.Log)
}

func (o *etcdOptions) source(name string, env Env) (source.Source, error) {
	s, err := etcd.New(name, o.Options, env.Decoder, env.Log)
	if err != nil || !o.ShareMachines {
		return s, err
	}
	if env.Machines == nil {
		env.Log.Warn("shareMachines does nothing: registered machines are written into the cluster", "registry", name)
		return s, nil
	}
	return &sharing{s, env.Machines, env.Machines.Share(name, o.Reach, o.Layout, env.Log)}, nil
}

// sharing is an etcd through which registered machines are shared.
type sharing struct {
	*etcd.Source
	machines *machines.Machines
	records  *shared.Records
}

// Run implements source.Source. It reads objects only once the machines of other control planes are known, because proxies must get
// all of them from the start.
func (s *sharing) Run(ctx context.Context, sink source.Sink) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() { s.machines.Run(ctx, s.Name(), s.records) })
	select {
	case <-s.records.Tried():
		return s.Source.Run(ctx, sink)
	case <-ctx.Done():
		return nil
	}
}

func (o *mcpOptions) source(name string, env Env) (source.Source, error) {
	return mcpxds.New(name, o.Options, env.Decoder, env.Log)
}

func (o *memoryOptions) source(name string, env Env) (source.Source, error) {
	return api.New(name, o.Options, env.Log, env.Decoder)
}

// Consul is the entry of one that a flag names by its URL.
func Consul(url string) Entry {
	o := &consulOptions{}
	if url != "" {
		o.URLs = []string{url}
	}
	return Entry{kinds: kinds{Consul: o}}
}
