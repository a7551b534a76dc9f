package follow

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"fairway/internal/writes/work"
)

// Options describe a list and watch of one kind.
type Options[T any] struct {
	Task    string // missing rights are reported under it
	Kind    string // to people: "ConfigMaps"
	Object  runtime.Object
	Select  metav1.ListOptions // label and field selectors
	List    func(context.Context, metav1.ListOptions) (runtime.Object, error)
	Watch   func(context.Context, metav1.ListOptions) (watch.Interface, error)
	Keep    func(o runtime.Object) T     // returns the kept part of an object
	Changed func(namespace, name string) // an object was added, changed or deleted
	Report  *work.Report
}

// Follower knows all objects of the kind. Any goroutine may ask it.
type Follower[T any] struct {
	store   cache.Store
	control cache.Controller
}

// kept wraps the kept part of an object as an object, so that client-go's store takes it.
type kept[T any] struct {
	metav1.ObjectMeta
	of T
}

// New returns a follower that does not run yet.
func New[T any](o Options[T]) *Follower[T] {
	quiet := logr.Discard()
	changed := func(object any) {
		if gone, is := object.(cache.DeletedFinalStateUnknown); is {
			object = gone.Obj
		}
		if about, err := meta.Accessor(object); err == nil {
			o.Changed(about.GetNamespace(), about.GetName())
		}
	}
	told := func(err error) error {
		if err == nil {
			o.Report.Settled(o.Task, o.Kind)
		} else {
			o.Report.Failed(o.Task, o.Kind, err)
		}
		return err
	}
	f := &Follower[T]{}
	f.store, f.control = cache.NewInformerWithOptions(cache.InformerOptions{
		Logger: &quiet,
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, by metav1.ListOptions) (runtime.Object, error) {
				by.LabelSelector, by.FieldSelector = o.Select.LabelSelector, o.Select.FieldSelector
				list, err := o.List(ctx, by)
				return list, told(err)
			},
			WatchFuncWithContext: func(ctx context.Context, by metav1.ListOptions) (watch.Interface, error) {
				by.LabelSelector, by.FieldSelector = o.Select.LabelSelector, o.Select.FieldSelector
				events, err := o.Watch(ctx, by) // which lists too, if the API server does that in one request
				return events, told(err)
			},
		},
		ObjectType: o.Object,
		Transform: func(object any) (any, error) {
			about, err := meta.Accessor(object)
			if err != nil {
				return nil, err
			}
			if _, done := object.(*kept[T]); done {
				return object, nil
			}
			return &kept[T]{metav1.ObjectMeta{
				Namespace: about.GetNamespace(), Name: about.GetName(), ResourceVersion: about.GetResourceVersion(),
			}, o.Keep(object.(runtime.Object))}, nil
		},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    changed,
			UpdateFunc: func(_, now any) { changed(now) },
			DeleteFunc: changed,
		},
	})
	return f
}

// Run follows until ctx ends.
func (f *Follower[T]) Run(ctx context.Context) { f.control.RunWithContext(ctx) }

// Synced reports whether the first list is complete.
func (f *Follower[T]) Synced() bool { return f.control.HasSynced() }

// Get returns the kept part of an object; false: there is no such object.
func (f *Follower[T]) Get(namespace, name string) (of T, ok bool) {
	key := name
	if namespace != "" {
		key = namespace + "/" + name
	}
	o, ok, err := f.store.GetByKey(key)
	if !ok || err != nil {
		return of, false
	}
	return o.(*kept[T]).of, true
}

// Each calls visit with all objects, in no order.
func (f *Follower[T]) Each(visit func(namespace, name string, of T)) {
	for _, o := range f.store.List() {
		k := o.(*kept[T])
		visit(k.Namespace, k.Name, k.of)
	}
}
