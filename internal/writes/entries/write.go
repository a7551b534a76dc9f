package entries

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"fairway/internal/config"
	"fairway/internal/writes/work"
)

// write brings an entry up to date.
func (w *Writer) write(ctx context.Context, e entry) error {
	w.mu.Lock()
	k := w.kept[e]
	if k == nil {
		w.mu.Unlock()
		return nil
	}
	now := *k
	w.mu.Unlock()
	stands, err := w.get(ctx, e)
	switch {
	case err != nil:
		return err
	case now.left.IsZero():
		return w.come(ctx, e, now, stands)
	default:
		return w.leave(ctx, e, now, stands)
	}
}

// get returns the entry from the API server; nil: there is none.
func (w *Writer) get(ctx context.Context, e entry) (*unstructured.Unstructured, error) {
	if err := w.queue.Pace(ctx); err != nil {
		return nil, err
	}
	text, err := w.o.API.Get().AbsPath(e.path()).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	return out, json.Unmarshal(text, &out.Object)
}

// come creates the entry, or takes it over from another control plane.
func (w *Writer) come(ctx context.Context, e entry, k kept, stands *unstructured.Unstructured) error {
	at := k.came.UTC().Format(time.RFC3339Nano)
	if stands == nil {
		group := w.o.Group(k.machine.GroupKey())
		if group == nil || !k.machine.Admits(group) {
			return work.ErrWait // a machine may register only if the group gives it its service account
		}
		return w.create(ctx, e, k.machine, group, at)
	}
	notes := stands.GetAnnotations()
	if notes[ofGroup] != k.machine.Group {
		return nil // another writer made it
	}
	if notes[ofController] == w.o.Identity && notes[disconnectedAt] == "" {
		return nil
	}
	return w.annotate(ctx, e, stands, map[string]any{ofController: w.o.Identity, connectedAt: at, disconnectedAt: nil})
}

func (w *Writer) create(ctx context.Context, e entry, m config.Member, group *config.Object, at string) error {
	made := m.Register(group)
	notes := maps.Clone(made.Annotations)
	notes[ofController], notes[connectedAt] = w.o.Identity, at
	about := map[string]any{"name": e.name, "namespace": e.namespace, "labels": made.Labels.Map(), "annotations": notes}
	if uid := group.Stored.UID; uid != "" {
		about["ownerReferences"] = []any{map[string]any{
			"apiVersion": "networking.istio.io/v1", "kind": "WorkloadGroup", "name": m.Group, "uid": uid, "controller": true,
		}}
	}
	spec, err := protojson.Marshal(made.Spec)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "networking.istio.io/v1", "kind": "WorkloadEntry", "metadata": about, "spec": json.RawMessage(spec),
	})
	if err != nil {
		return err
	}
	err = w.o.API.Post().AbsPath("/apis/networking.istio.io/v1/namespaces/"+e.namespace+"/workloadentries").
		Param("fieldManager", w.o.Manager).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
	switch {
	case err == nil:
		w.o.Report.Wrote(task)
	case apierrors.IsAlreadyExists(err):
		return work.ErrWait
	}
	return err
}

// annotate changes annotations of the version that was read.
func (w *Writer) annotate(ctx context.Context, e entry, stands *unstructured.Unstructured, notes map[string]any) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": stands.GetResourceVersion(), "annotations": notes,
	}})
	if err != nil {
		return err
	}
	err = w.o.API.Patch(types.MergePatchType).AbsPath(e.path()).Param("fieldManager", w.o.Manager).Body(body).Do(ctx).Error()
	switch {
	case err == nil:
		w.o.Report.Wrote(task)
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return work.ErrWait
	}
	return err
}

// leave marks the entry of a machine that has left, and deletes it after the grace, unless another control plane keeps it.
func (w *Writer) leave(ctx context.Context, e entry, k kept, stands *unstructured.Unstructured) error {
	if stands == nil || stands.GetAnnotations()[ofController] != w.o.Identity {
		w.forget(e, k)
		return nil
	}
	if rest := time.Until(k.left.Add(w.o.Grace)); rest > 0 {
		if stands.GetAnnotations()[disconnectedAt] == "" {
			if err := w.annotate(ctx, e, stands, map[string]any{disconnectedAt: k.left.UTC().Format(time.RFC3339Nano)}); err != nil {
				return err
			}
		}
		w.queue.AddAfter(e, rest)
		return nil
	}
	if err := remove(ctx, w.o.API, e, string(stands.GetUID()), stands.GetResourceVersion()); err != nil {
		return err
	}
	w.o.Report.Wrote(task)
	w.forget(e, k)
	return nil
}

// forget stops keeping an entry, unless its machine has connected again.
func (w *Writer) forget(e entry, k kept) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.kept[e]; now != nil && now.machine == k.machine && now.proxies == 0 {
		delete(w.kept, e)
	}
}

// remove deletes an entry in the version that was read; another version stays.
func remove(ctx context.Context, api rest.Interface, e entry, uid, version string) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": map[string]any{"uid": uid, "resourceVersion": version},
	})
	if err != nil {
		return err
	}
	err = api.Delete().AbsPath(e.path()).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return work.ErrWait
	}
	return err
}
