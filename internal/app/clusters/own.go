package clusters

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/client-go/rest"

	"fairway/internal/app/selectors"
	"fairway/internal/compile/secret"
	"fairway/internal/config"
	"fairway/internal/identity"
	"fairway/internal/identity/review"
	"fairway/internal/source"
	"fairway/internal/source/kube"
	"fairway/internal/table"
)

// Connect returns how to reach the cluster that a kubeconfig file names, or that this program runs in; nil: there is none.
func Connect(kubeconfig string) (*rest.Config, error) {
	reach, err := kube.Connect(kubeconfig)
	if errors.Is(err, kube.ErrNoCluster) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return reach, nil
}

// Tokens returns a review of each cluster's tokens by its API server, at first only those of the own cluster. audience is the
// audience that tokens must have; empty: the default one.
func Tokens(own string, reach *rest.Config, trust identity.Trust, audience string, log *slog.Logger) (*review.Clusters, error) {
	o := review.Options{Config: reach, Trust: trust, Now: time.Now, Log: log}
	if audience != "" {
		o.Audiences = []string{audience}
	}
	return review.NewClusters(own, o)
}

// Own is the own cluster. A nil one is none.
type Own struct{ kube *kube.Source }

// Inputs are the inputs that say which Secrets have been looked for, that they are read only if they are wanted, and the names of the
// control plane's revision.
type Inputs struct {
	Read     *table.Input[secret.Key, struct{}]
	OnDemand *table.Input[struct{}, struct{}]
	Revised  *table.Input[struct{}, []string]
}

// NewOwn returns the own cluster. It reads the namespaces that selectors select, and Secrets only if they are wanted.
func NewOwn(o kube.Options, in Inputs, s *selectors.Selectors) (*Own, error) {
	o.Scoped = true
	o.MeshRead = func() { s.Read(selectors.Cluster) }
	o.OnLookup = func(k config.Key, known bool) { markRead(in.Read, k, known) }
	o.OnTags = func(tags []string) {
		if o.Revision != "" {
			in.Revised.Set(struct{}{}, append([]string{o.Revision}, tags...))
		}
	}
	o.OnTags(nil)
	out, err := kube.New(o)
	if err != nil {
		return nil, err
	}
	s.Add(out)
	in.OnDemand.Set(struct{}{}, struct{}{})
	return &Own{out}, nil
}

// Sources returns the cluster's source.
func (o *Own) Sources() []source.Source {
	if o == nil {
		return nil
	}
	return []source.Source{o.kube}
}

// Want says which Secrets and ConfigMaps are wanted from now on, and which no longer. It does not block.
func (o *Own) Want(more, less []config.Key) {
	if o != nil {
		o.kube.Want(more, less)
	}
}

// markRead marks in the graph that a Secret or a ConfigMap has been looked for and that its content has been handed over. If known is
// false, it is no longer kept up to date.
func markRead(read *table.Input[secret.Key, struct{}], k config.Key, known bool) {
	if at := secret.KeyOf(k); known {
		read.Set(at, struct{}{})
	} else {
		read.Delete(at)
	}
}
