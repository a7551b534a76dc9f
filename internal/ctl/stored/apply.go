package stored

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/analyze"
	"fairway/internal/config"
	"fairway/internal/ctl/cluster"
	"fairway/internal/ctl/output"
	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/store"
)

// meant is an object that a user wrote.
type meant struct {
	doc config.Document
	o   *config.Object // nil: its name alone counts
	key config.Key
	was int64 // the version that it is based on
	had bool  // the document names that version
}

// applyObjects is a verb that stores objects.
func applyObjects(live Live, flags *cluster.Flags) *cobra.Command {
	k := &keeping{flags: flags}
	w := &watching{live: live}
	as := ""
	cmd := &cobra.Command{
		Use:   "apply -f FILE|FOLDER|-",
		Short: "Store objects where control planes read them: in a folder, an etcd or a cluster",
		Long: "Stores objects of files in a folder (--folder), in etcd (--store) or in a cluster. There the API server applies them, and " +
			"fields of other writers stay; elsewhere each replaces its stored version as a whole. All are validated first, as a " +
			"control plane of this version does: if one is invalid, nothing is written.\n\nAn object with a metadata.resourceVersion is " +
			"stored only if that is still its version, so that no change is lost.\n" +
			fmt.Sprintf("Up to %d objects, of %d KiB in all, are written at once or not at all; more in several such steps, in order.\n\n",
				store.MaxChanges, store.MaxBytes>>10) +
			"With --wait it then waits, as pilotctl wait -f does, until all of it is in force on all proxies of all control planes.\n\n" +
			"  pilotctl apply -f rules/ -R\n" +
			"  pilotctl apply -f reviews.yaml --wait --address 127.0.0.1:8080\n" +
			"  pilotctl apply -f mesh.yaml --kind MeshConfig\n" +
			"  pilotctl get vs/reviews -o yaml | sed s/v1/v2/ | pilotctl apply -f -",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(k.check(cmd, "", "yaml", "json", "name"), w.check(k.dryRun)); err != nil {
				return err
			}
			all, problems, err := k.read(cmd, as)
			if err != nil {
				return err
			}
			if err := refuse(cmd, problems); err != nil {
				return err
			}
			err = k.with(cmd.Context(), func(s place) error {
				done, err := k.apply(cmd.Context(), s, all)
				if k.format == "" && !k.dryRun && err == nil {
					w.name(cmd, done, all)
				}
				return errors.Join(k.showDone(cmd.OutOrStdout(), done), err)
			})
			if err != nil || !w.wait {
				return err
			}
			return w.await(cmd, all, k.format != "")
		},
	}
	k.bind(cmd.Flags())
	k.bindFiles(cmd, "to store")
	w.bind(cmd.Flags())
	cmd.Flags().BoolVar(&k.force, "force-conflicts", false, "in a cluster: take fields that other writers have set")
	cmd.Flags().StringVar(&as, "kind", "", "MeshConfig or MeshNetworks: the file is that, in plain fields without apiVersion and kind")
	cmd.Flags().StringVarP(&k.format, "output", "o", "", "print the stored objects as yaml or json, or their names (default: a line for "+
		"each change)")
	return cmd
}

func (k *keeping) bindFiles(cmd *cobra.Command, what string) {
	cmd.Flags().StringSliceVarP(&k.files, "filename", "f", nil, "files or folders of objects "+what+"; -: standard input")
	cmd.Flags().BoolVarP(&k.recursive, "recursive", "R", false, "read folders in folders too")
	cmd.Flags().BoolVar(&k.dryRun, "dry-run", false, "do all but write")
}

// read reads the objects of files. It returns the problems of all of them.
func (k *keeping) read(cmd *cobra.Command, as string) ([]meant, []mesh.Problem, error) {
	if len(k.files) == 0 {
		return nil, nil, errors.New("say with -f which files or folders hold the objects; -: the standard input")
	}
	docs, err := analyze.Documents(k.files, k.recursive, cmd.InOrStdin())
	if err != nil {
		return nil, nil, err
	}
	decoder, err := k.decoder()
	if err != nil {
		return nil, nil, err
	}
	decode := decoder.Decode
	switch kind, known := config.KindCalled(as, store.Kinds()); {
	case as == "":
	case !known || !store.Single(kind):
		return nil, nil, fmt.Errorf("--kind %s: want MeshConfig or MeshNetworks; other kinds are named in the files",
			printable.Text(as, printable.Short))
	case kind == config.MeshConfig:
		decode = decoder.DecodeMeshConfig
	default:
		decode = decoder.DecodeMeshNetworks
	}
	var out []meant
	var problems []mesh.Problem
	at := map[config.Key]config.Document{}
	for _, doc := range docs {
		o, found := decode(doc)
		for i := range found {
			if o == nil { // a kind of others cannot be stored, which is not a mere warning here
				found[i].Severity = mesh.Error
			}
		}
		problems = append(problems, found...)
		if o == nil {
			continue
		}
		if other, twice := at[o.Key]; twice {
			return nil, nil, fmt.Errorf("%s is in %s:%d and in %s:%d; store it once",
				titled(o.Key), other.File, other.Line, doc.File, doc.Line)
		}
		at[o.Key] = doc
		m := meant{doc: doc, o: o, key: o.Key}
		if m.had, m.was, err = versionOf(doc); err != nil {
			return nil, nil, fmt.Errorf("%s:%d: %w", doc.File, doc.Line, err)
		}
		out = append(out, m)
	}
	if len(docs) == 0 {
		return nil, nil, errors.New("there are no objects in what -f names")
	}
	return out, problems, nil
}

// versionOf returns the version that a document is based on, if it names one. The version of an API server, which also gives objects a uid,
// means nothing here.
func versionOf(doc config.Document) (has bool, version int64, err error) {
	text := metadata(doc.Text, "resourceVersion")
	if text == "" || metadata(doc.Text, "uid") != "" {
		return false, 0, nil
	}
	version, err = strconv.ParseInt(text, 10, 64)
	if err != nil || version < 0 {
		return false, 0, fmt.Errorf("metadata.resourceVersion %q: want the number that pilotctl get shows, or leave it out",
			printable.Text(text, printable.Short))
	}
	return true, version, nil
}

// refuse prints problems, and returns an error if one of them keeps an object from being stored.
func refuse(cmd *cobra.Command, problems []mesh.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	shown, bad := []page.ProblemInfo{}, 0
	for _, p := range problems {
		shown = append(shown, page.ProblemOf(p))
		if p.Severity == mesh.Error {
			bad++
		}
	}
	if err := output.Problems(cmd.ErrOrStderr(), shown); err != nil {
		return output.Fail(err)
	}
	if bad > 0 {
		return output.Fail(errors.New("not all objects are valid: nothing was written"))
	}
	return nil
}

// The results of a write.
const (
	wasCreated    = "created"
	wasConfigured = "configured"
	wasUnchanged  = "unchanged"
	wasDeleted    = "deleted"
)

// done is the result for one object.
type done struct {
	store.Item
	what   string
	before []byte // the text that there was; nil: none
	turn   string // since when it is in force, as "turn 8412"; empty: not known
}

// note notes what a place has made of the object: it has the version of all objects of the change, or one of its own. A cluster may keep
// other fields beside those that it was given; nothing has changed if all are as before.
func (d *done) note(s place, revision int64) {
	d.Revision = revision
	of, is := s.(interface {
		Written(config.Key) store.Item
	})
	if !is {
		return
	}
	if d.Item = of.Written(d.Key); bytes.Equal(d.Text, d.before) {
		d.what = wasUnchanged
	}
}

// steps splits the objects into parts that are each written at once, in order.
func steps(all []meant) [][]meant {
	var out [][]meant
	size := 0
	for _, m := range all {
		size += len(m.doc.Text)
		if n := len(out); n == 0 || len(out[n-1]) == store.MaxChanges || size > store.MaxBytes {
			out, size = append(out, nil), len(m.doc.Text)
		}
		out[len(out)-1] = append(out[len(out)-1], m)
	}
	return out
}

// apply stores objects. Together with an error it returns the objects that were stored before it.
func (k *keeping) apply(ctx context.Context, s place, all []meant) ([]done, error) {
	var out []done
	parts := steps(all)
	for i, part := range parts {
		some, err := k.applyStep(ctx, s, part)
		if err != nil && i > 0 {
			err = fmt.Errorf("%w\n%d of %d objects were stored before that", err, len(out), len(all))
		}
		if out = append(out, some...); err != nil {
			return out, err
		}
	}
	return out, nil
}

// mostTries is how often objects are read again if another client changes them meanwhile and no version was given.
const mostTries = 5

func (k *keeping) applyStep(ctx context.Context, s place, part []meant) ([]done, error) {
	for try := 1; ; try++ {
		changes, out, err := k.plan(ctx, s, part)
		if err != nil {
			return nil, err
		}
		if k.dryRun || len(changes) == 0 {
			return out, nil
		}
		revision, err := s.Commit(ctx, changes)
		var conflict store.Conflict
		if errors.As(err, &conflict) && try < mostTries {
			continue // plan says which it is, where a version was asked for
		}
		if err != nil {
			return nil, err
		}
		for i := range out {
			if out[i].what != wasUnchanged {
				out[i].note(s, revision)
			}
		}
		return out, nil
	}
}

// plan returns the changes that have to be written.
func (k *keeping) plan(ctx context.Context, s place, part []meant) (changes []store.Change, out []done, err error) {
	var keys []config.Key
	for _, m := range part {
		keys = append(keys, m.key)
	}
	now, err := s.Read(ctx, keys)
	if err != nil {
		return nil, nil, err
	}
	var conflicts []error
	for i, m := range part {
		is := now[i]
		if m.had && m.was != is.Revision {
			conflicts = append(conflicts, store.Conflict{Key: m.key, Was: m.was, Is: is.Revision})
			continue
		}
		text, err := s.Form(m.doc, m.key, is)
		if err != nil {
			return nil, nil, fmt.Errorf("%s:%d: %w", m.doc.File, m.doc.Line, err)
		}
		item := store.Item{Key: m.key, Revision: is.Revision, Text: text}
		switch {
		case is.Revision > 0 && slices.Equal(is.Text, text):
			out = append(out, done{Item: item, what: wasUnchanged})
			continue
		case is.Revision > 0:
			out = append(out, done{Item: item, what: wasConfigured, before: is.Text})
		default:
			out = append(out, done{Item: item, what: wasCreated})
		}
		changes = append(changes, store.Change{Key: m.key, Text: text, Was: is.Revision})
	}
	if len(conflicts) > 0 {
		return nil, nil, stale(errors.Join(conflicts...))
	}
	return changes, out, nil
}

// stale adds to a conflict what to do about it.
func stale(err error) error {
	return fmt.Errorf("%w\nnothing of it was written: get the object again, and make the change of that", err)
}

func (k *keeping) showDone(w io.Writer, all []done) error {
	if k.format != "" {
		var items []store.Item
		for _, d := range all {
			items = append(items, d.Item)
		}
		return showItems(w, k.format, items, len(items) == 1)
	}
	for _, d := range all {
		note := ""
		if k.dryRun {
			note = " (dry run)"
		}
		if d.turn != "" {
			note = ", " + d.turn
		}
		if _, err := fmt.Fprintf(w, "%s %s%s\n", titled(d.Key), d.what, note); err != nil {
			return err
		}
	}
	return nil
}

// deleteObjects is the verb that deletes objects.
func deleteObjects(flags *cluster.Flags) *cobra.Command {
	k := &keeping{flags: flags}
	missing := false
	cmd := &cobra.Command{
		Use:   "delete KIND NAME... | KIND/NAME... | -f FILE|FOLDER|-",
		Short: "Delete objects where control planes read them: from a folder, an etcd or a cluster",
		Long: "Deletes objects of a folder (--folder), of etcd (--store) or of a cluster, by name or as listed in files. " +
			"If an object of a file has a metadata.resourceVersion, it is deleted only if that is still its version.\n\n" +
			"  pilotctl delete vs reviews ratings -n shop\n" +
			"  pilotctl delete -f old.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := k.check(cmd, "", "name"); err != nil {
				return err
			}
			all, err := k.leaving(cmd, args)
			if err != nil {
				return err
			}
			return k.with(cmd.Context(), func(s place) error {
				var out []done
				for _, part := range steps(all) {
					some, err := k.deleteStep(cmd.Context(), s, part, missing)
					if out = append(out, some...); err != nil {
						return errors.Join(k.showDone(cmd.OutOrStdout(), out), err)
					}
				}
				return k.showDone(cmd.OutOrStdout(), out)
			})
		},
	}
	k.bind(cmd.Flags())
	k.bindFiles(cmd, "to take away")
	cmd.Flags().BoolVar(&missing, "ignore-not-found", false, "an object that is not there is no error")
	cmd.Flags().StringVarP(&k.format, "output", "o", "", "name: print names alone")
	return cmd
}

// leaving returns the objects that are to be deleted.
func (k *keeping) leaving(cmd *cobra.Command, args []string) ([]meant, error) {
	if len(k.files) > 0 && len(args) > 0 {
		return nil, errors.New("-f and names: want one of them")
	}
	if len(k.files) > 0 {
		all, problems, err := k.read(cmd, "")
		if err == nil {
			err = refuse(cmd, slices.DeleteFunc(problems, func(p mesh.Problem) bool { return p.Severity < mesh.Error }))
		}
		return all, err
	}
	w, err := k.wanted(args)
	switch {
	case err != nil:
		return nil, err
	case len(w.keys) == 0:
		return nil, errors.New("name the objects: KIND NAME..., KIND/NAME..., or -f FILE")
	}
	var out []meant
	for _, key := range w.keys {
		out = append(out, meant{key: key})
	}
	return out, nil
}

func (k *keeping) deleteStep(ctx context.Context, s place, part []meant, missing bool) ([]done, error) {
	var keys []config.Key
	for _, m := range part {
		keys = append(keys, m.key)
	}
	for try := 1; ; try++ {
		now, err := s.Read(ctx, keys)
		if err != nil {
			return nil, err
		}
		var errs []error
		var changes []store.Change
		var out []done
		for i, m := range part {
			switch is := now[i]; {
			case is.Revision == 0 && missing:
			case is.Revision == 0:
				errs = append(errs, fmt.Errorf("%s is not there", titled(m.key)))
			case m.had && m.was != is.Revision:
				errs = append(errs, store.Conflict{Key: m.key, Was: m.was, Is: is.Revision})
			default:
				changes = append(changes, store.Change{Key: m.key, Was: is.Revision})
				out = append(out, done{Item: is, what: wasDeleted})
			}
		}
		if len(errs) > 0 {
			return nil, fmt.Errorf("%w\nnothing of it was deleted", errors.Join(errs...))
		}
		if k.dryRun || len(changes) == 0 {
			return out, nil
		}
		_, err = s.Commit(ctx, changes)
		var conflict store.Conflict
		if errors.As(err, &conflict) && try < mostTries {
			continue
		}
		if err != nil {
			return nil, err
		}
		return out, nil
	}
}
