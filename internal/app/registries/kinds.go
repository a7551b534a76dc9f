package registries

import (
	"fairway/internal/source"
	"fairway/internal/source/api"
	"fairway/internal/source/etcd"
	"fairway/internal/source/eureka"
)

// kinds are those of registries, by the field that an entry gives. A new kind is a field here and its options below.
type kinds struct {
	Eureka *eurekaOptions `json:"eureka,omitempty"`
	Etcd   *etcdOptions   `json:"etcd,omitempty"`
	Memory *memoryOptions `json:"memory,omitempty"`
}

// sourceNames are what sources of a kind are called, by its field.
var sourceNames = map[string]string{"eureka": "Eureka", "etcd": "etcd", "memory": "Memory"}

type (
	eurekaOptions struct{ eureka.Options }
	etcdOptions   struct{ etcd.Options }
	memoryOptions struct{ api.Options }
)

func (o *eurekaOptions) source(name string, env Env) (source.Source, error) {
	return eureka.New(name, o.Options, env.Log)
}

func (o *etcdOptions) source(name string, env Env) (source.Source, error) {
	return etcd.New(name, o.Options, env.Decoder, env.Log)
}

func (o *memoryOptions) source(name string, env Env) (source.Source, error) {
	return api.New(name, o.Options, env.Log, env.Decoder)
}
