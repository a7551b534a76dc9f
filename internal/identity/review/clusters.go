package review

import (
	"cmp"
	"context"
	"sync"

	"k8s.io/client-go/rest"

	"fairway/internal/identity/authn"
	"fairway/internal/printable"
)

// Clusters admits those who show a token of a service account of one of several clusters. It asks only the API server of the cluster that
// the caller names, or of the own cluster if it names none: a server that gets a token could use it, and one cluster's accounts are not
// another's. It is an authn.Method.
type Clusters struct {
	o   Options // of the own cluster
	own string

	mu  sync.RWMutex
	all map[string]*Tokens // by name of the cluster
}

var _ authn.Method = (*Clusters)(nil)

// NewClusters prepares the method for the own cluster only.
func NewClusters(own string, o Options) (*Clusters, error) {
	c := &Clusters{o: o, own: own, all: map[string]*Tokens{}}
	if err := c.Add(own, o.Config); err != nil {
		return nil, err
	}
	return c, nil
}

// Add has tokens of a cluster reviewed by its API server from now on, in place of how it was reached before. Cached answers about its
// tokens are dropped.
func (c *Clusters) Add(cluster string, reach *rest.Config) error {
	o := c.o
	o.Config, o.Cluster = reach, cluster
	t, err := New(o)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[cluster] = t
	return nil
}

// Remove refuses tokens of a cluster from now on.
func (c *Clusters) Remove(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, cluster)
}

// Authenticate implements Method.
func (c *Clusters) Authenticate(ctx context.Context, shown authn.Credentials) (authn.Caller, error) {
	if _, ok := read(shown.Token); !ok {
		return authn.Caller{}, authn.ErrNotMine
	}
	cluster := cmp.Or(shown.Cluster, c.own)
	c.mu.RLock()
	t := c.all[cluster]
	c.mu.RUnlock()
	if t == nil {
		return authn.Caller{}, refused("the caller claims cluster %q, which this control plane does not read: "+
			"correct its CLUSTER_ID", printable.Text(cluster, printable.Short))
	}
	return t.Authenticate(ctx, shown)
}
