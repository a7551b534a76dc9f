package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// list hands over all there is, a whole shard a namespace.
func (f *feed) list(ctx context.Context) error {
	at, err := f.kind.find(ctx)
	if err != nil {
		return err
	}
	g := f.gathering()
	if f.scope == nil {
		g.part("")
	}
	version, err := f.pages(ctx, at, g)
	if err != nil {
		return err
	}
	f.takeBack(g.problems)
	for namespace, old := range f.parts { // what went while nobody watched
		if g.parts[namespace] == nil {
			f.kind.read(old.reader).listed()
		}
	}
	f.parts, f.at, f.version = g.parts, at, version
	clear(f.pending)
	f.out.put(g.shards(), g.problems)
	for _, p := range g.parts {
		p.reader.listed()
	}
	f.listed = true
	f.release()
	return nil
}

// pages reads all objects of a collection, and returns the version that they are of.
func (f *feed) pages(ctx context.Context, at collection, g *gathering) (version string, err error) {
	opts := metav1.ListOptions{Limit: pageSize}
	if f.unlimited {
		opts.Limit, f.unlimited = 0, false
	}
	n, most := 0, maxObjects
	if f.o.Remote {
		most = maxRemoteObjects
	}
	for more := true; more; more = opts.Continue != "" {
		page, err := f.page(ctx, at, opts)
		if forgotten(err) && opts.Continue != "" {
			f.unlimited = true
			return "", fmt.Errorf("%w: %w", errForgotten, err)
		}
		if err != nil {
			if apierrors.IsNotFound(err) {
				f.kind.lost()
			}
			return "", err
		}
		if err := meta.EachListItem(page, func(o runtime.Object) error {
			if n++; n > most {
				return fmt.Errorf("there are more than %d objects", most)
			}
			g.set(o)
			return nil
		}); err != nil {
			return "", err
		}
		about, err := meta.ListAccessor(page)
		if err != nil {
			return "", err
		}
		version, opts.Continue = about.GetResourceVersion(), about.GetContinue()
	}
	return version, nil
}

func (f *feed) page(ctx context.Context, at collection, opts metav1.ListOptions) (runtime.Object, error) {
	ctx, stop := context.WithTimeoutCause(ctx, f.o.AnswerTime, errSilent)
	defer stop()
	page, err := at.list(ctx, opts)
	return page, silence(ctx, err)
}
