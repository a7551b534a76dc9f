package app

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"fairway/internal/compile"
	"fairway/internal/compile/secret"
	"fairway/internal/config"
	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/identity/review"
	"fairway/internal/source"
	"fairway/internal/source/kube"
	"fairway/internal/table"
)

// kubernetes is the registry that --registries names.
const kubernetes = "Kubernetes"

// kubeConfig is how to reach the cluster that the options name, or that this program runs in; nil: there is none.
func kubeConfig(opts Options) (*rest.Config, error) {
	if !containsFold(opts.Registries, kubernetes) {
		return nil, nil
	}
	reach, err := kube.Connect(opts.Kubeconfig)
	if errors.Is(err, kube.ErrNoCluster) {
		return nil, nil // Run says so
	}
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return reach, nil
}

// reviewer makes what has each cluster's tokens reviewed by its API server; nil: there is no cluster.
func reviewer(opts Options, reach *rest.Config, others *clusters) func(identity.Trust) (authn.Method, error) {
	if reach == nil {
		return nil
	}
	return func(trust identity.Trust) (authn.Method, error) {
		o := review.Options{Config: reach, Trust: trust, Now: time.Now, Log: opts.Log}
		if named := opts.Identity.Audience; named != "" {
			o.Audiences = []string{named}
		}
		tokens, err := review.NewClusters(opts.ClusterID, o)
		others.tokens = tokens
		return tokens, err
	}
}

// kubeSources is the cluster. It joins behind the files, so that of an object which both have that of the file counts.
func kubeSources(
	opts Options, reach *rest.Config, decoder *config.Decoder, g *compile.Graph,
	seen func(*unstructured.Unstructured, bool), others *clusters, seeing *discovers,
) (out []source.Source, who wants, err error) {
	if reach == nil {
		return nil, nil, nil
	}
	s, err := kube.New(kube.Options{
		Cluster: opts.ClusterID, Domain: opts.Domain, Namespace: opts.Namespace,
		Config: reach, Decoder: decoder, Log: opts.Log,
		Looked:   func(k config.Key, known bool) { looked(g, k, known) },
		Remotes:  others.set,
		Seen:     seen,
		Revision: opts.Revision,
		Scoped:   true,
		MeshRead: func() { seeing.read(meshCluster) },
	})
	if err != nil {
		return nil, nil, err
	}
	seeing.add(s)
	seeing.tagged = s.Tagged
	g.Secrets.OnDemand.Set(struct{}{}, struct{}{})
	return []source.Source{s}, wants{s}, nil
}

// looked has the graph know that a Secret or a ConfigMap has been looked for: what there is of it has been handed over; or that nobody
// keeps it up to date any more.
func looked(g *compile.Graph, k config.Key, known bool) {
	if at := secret.KeyOf(k); known {
		g.Secrets.Read.Set(at, struct{}{})
	} else {
		g.Secrets.Read.Delete(at)
	}
}

// wanting is a source that reads some objects only where they are wanted.
type wanting interface {
	// Want says which objects are wanted from now on, and which no longer. It does not block.
	Want(more, less []config.Key)
}

// wants are the sources that are told what is wanted.
type wants []wanting

// tell passes on what a turn changed in what is wanted.
func (w wants) tell(g *compile.Graph) {
	if len(w) == 0 {
		return
	}
	var more, less []config.Key
	for c := range table.Changes(g.Wanted) {
		k := c.Key.Object()
		if c.Has {
			more = append(more, k)
		} else {
			less = append(less, k)
		}
	}
	if len(more)+len(less) == 0 {
		return
	}
	for _, s := range w {
		s.Want(more, less)
	}
}
