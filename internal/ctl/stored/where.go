package stored

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"fairway/internal/config"
	"fairway/internal/ctl/stored/folder"
	"fairway/internal/ctl/stored/kube"
	dev "fairway/internal/dev/folder"
	"fairway/internal/printable"
	"fairway/internal/store"
)

// place keeps objects: an etcd, a folder, or a cluster.
type place interface {
	Get(context.Context, config.Key) (store.Item, bool, error)
	// Read returns an item for each key; one that is not there has the revision 0.
	Read(context.Context, []config.Key) ([]store.Item, error)
	// List returns the objects of some kinds; namespace empty: of all.
	List(ctx context.Context, kinds []config.Kind, namespace string) ([]store.Item, error)
	// Form returns a user's document as the place keeps it.
	Form(doc config.Document, key config.Key, was store.Item) ([]byte, error)
	Commit(context.Context, []store.Change) (int64, error)
	Close()
}

// etcd is a place.
type etcd struct{ *store.Store }

// Form adds when the object was created.
func (etcd) Form(doc config.Document, key config.Key, was store.Item) ([]byte, error) {
	since := created(was.Text)
	if since == "" {
		if since = created(doc.Text); since == "" {
			since = time.Now().UTC().Format(time.RFC3339)
		}
	}
	return store.Stored(doc, key, since)
}

// choose decides where the objects are. A flag of a place has precedence over FAIRWAY_STORE, and this over a control plane of
// pilot-discovery dev: its folder is meant then. Without any of these it is the kubeconfig's cluster.
func (k *keeping) choose(cmd *cobra.Command, hasStore bool) error {
	hasFolder := k.folder != ""
	switch {
	case hasStore && hasFolder:
		return errors.New("--store and --folder: want one of them")
	case hasFolder || len(k.reach.URLs) > 0:
	case k.flags.Named():
		k.inCluster = true
	default:
		if plane, runs := dev.Default().Running(cmd.Context()); runs {
			k.folder = plane.Rules
			fmt.Fprintf(cmd.ErrOrStderr(), "pilotctl: this is about the rules of pilot-discovery dev, %s\n",
				printable.Text(plane.Rules, printable.Long))
			break
		}
		if k.inCluster = k.flags.Known(); !k.inCluster {
			return errors.New("where are the objects? say --folder DIR (a control plane's --configDir), --store https://HOST:2379 (etcd, " +
				"or set FAIRWAY_STORE), or name a cluster with --kubeconfig")
		}
	}
	if k.folder != "" || k.inCluster {
		k.reach.URLs = nil
	}
	if k.inCluster && !cmd.Flags().Changed("namespace") {
		k.namespace = k.flags.CurrentNamespace()
	}
	return nil
}

// open opens the place.
func (k *keeping) open(ctx context.Context, decoder *config.Decoder) (place, error) {
	switch {
	case k.folder != "":
		return folder.Open(k.folder, decoder)
	case k.inCluster:
		c, err := kube.Open(*k.flags)
		if err != nil {
			return nil, err
		}
		c.Force, c.Replace = k.force, k.replace
		return c, nil
	}
	s, err := store.Open(ctx, store.Reach{Reach: k.reach}, k.layout, decoder)
	return etcd{s}, err
}
