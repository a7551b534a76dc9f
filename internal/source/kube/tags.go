package kube

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairway/internal/mesh"
	"fairway/internal/source/kube/answers"
	"fairway/internal/source/kube/rows"
)

// tagLabel names a revision otherwise: a mutating webhook's configuration has it, beside the label of the revision.
const tagLabel = "istio.io/tag"

// tagKind is the kind of the webhooks that say which tags name a revision. It has no rows.
func tagKind(o Options, c *answers.Clients, to *scope) kind {
	at := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
	return kind{
		name: "RevisionTag", lost: func() {}, onRead: to.markTagsKnown,
		find: func(context.Context) (answers.Collection, error) { return c.Names(at, tagLabel), nil },
		read: func(before rows.Reader) rows.Reader { return newTagReader(o.Revision, to) },
	}
}

// tagReader reads which tags are this revision's.
type tagReader struct {
	revision string
	to       *scope
	tags     map[string]string // tags by the name of the webhook
	listing  bool
}

func newTagReader(revision string, to *scope) *tagReader {
	return &tagReader{revision: revision, to: to, tags: map[string]string{}, listing: true}
}

func (r *tagReader) Set(o runtime.Object, _ *rows.Made) []mesh.Problem {
	from := o.(*metav1.PartialObjectMetadata)
	if delete(r.tags, from.Name); from.Labels[rows.RevisionLabel] == r.revision {
		r.tags[from.Name] = from.Labels[tagLabel]
	}
	r.hand()
	return nil
}

func (r *tagReader) Remove(o runtime.Object, _ *rows.Made) {
	delete(r.tags, o.(*metav1.PartialObjectMetadata).Name)
	r.hand()
}

func (r *tagReader) Listed() {
	r.listing = false
	r.hand()
}

func (r *tagReader) hand() {
	if !r.listing {
		r.to.tag(slices.Sorted(maps.Values(r.tags)))
	}
}
