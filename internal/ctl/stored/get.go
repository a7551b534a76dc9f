package stored

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/config"
	"fairway/internal/ctl/cluster"
	"fairway/internal/ctl/output"
	"fairway/internal/printable"
	"fairway/internal/store"
)

// getObjects is the verb that shows objects that are kept in etcd.
func getObjects(flags *cluster.Flags) *cobra.Command {
	k := &keeping{flags: flags}
	everywhere := false
	cmd := &cobra.Command{
		Use:   "get KIND|all [NAME]... | KIND/NAME...",
		Short: "Objects as control planes read them: of a folder, an etcd or a cluster",
		Long: "Shows objects of a folder (--folder), of etcd (--store) or of a cluster. KIND may be written as " +
			"VirtualService, virtualservices or vs; several with commas. all is every kind but MeshConfig and MeshNetworks.\n\n" +
			"  pilotctl get vs -n shop\n" +
			"  pilotctl get VirtualService/reviews -n shop -o yaml\n" +
			"  pilotctl get all -A -o yaml > everything.yaml",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := k.check(cmd, "table", "yaml", "json", "name"); err != nil {
				return err
			}
			w, err := k.wanted(args)
			if err != nil {
				return err
			}
			return k.with(cmd.Context(), func(s place) error {
				namespace := k.namespace
				if everywhere {
					namespace = ""
				}
				items, err := s.List(cmd.Context(), w.kinds, namespace)
				if err != nil {
					return err
				}
				named, err := s.Read(cmd.Context(), w.keys)
				if err != nil {
					return err
				}
				var errs []error
				for _, item := range named {
					if item.Revision == 0 {
						errs = append(errs, fmt.Errorf("%s is not there", titled(item.Key)))
						continue
					}
					items = append(items, item)
				}
				if len(items) > 0 || len(errs) == 0 {
					errs = append(errs, showItems(cmd.OutOrStdout(), k.format, items, len(w.kinds) == 0 && len(w.keys) == 1))
				}
				return errors.Join(errs...)
			})
		},
	}
	k.bind(cmd.Flags())
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "of all namespaces")
	cmd.Flags().StringVarP(&k.format, "output", "o", "table", "table, yaml, json or name")
	return cmd
}

// showItems prints objects; single: as one, not as a list of one.
func showItems(w io.Writer, format string, items []store.Item, single bool) error {
	switch format {
	case "name":
		var b strings.Builder
		for _, item := range items {
			fmt.Fprintln(&b, titled(item.Key))
		}
		_, err := io.WriteString(w, b.String())
		return err
	case "yaml":
		return showTexts(w, items)
	case "json":
		return showTrees(w, items, single)
	}
	sh := output.Sheet{Header: []string{"KIND", "NAMESPACE", "NAME", "RESOURCEVERSION", "CREATED"}, Empty: "no objects"}
	for _, item := range items {
		sh.Rows = append(sh.Rows, []string{
			string(item.Key.Kind), output.OrDash(item.Key.Namespace), output.OrDash(item.Key.Name), fmt.Sprint(item.Revision),
			output.OrDash(created(item.Text)),
		})
	}
	return sh.Table(w)
}

// showTexts prints objects as they are stored, each with its version.
func showTexts(w io.Writer, items []store.Item) error {
	var b strings.Builder
	for i, item := range items {
		if i > 0 {
			fmt.Fprintln(&b, "---")
		}
		text, err := store.Shown(item.Key, item.Text, item.Revision)
		if err != nil { // the stored text is not an object
			fmt.Fprintf(&b, "# %s: %s\n", titled(item.Key), printable.Text(err.Error(), printable.Short))
			text = item.Text
		}
		fmt.Fprintln(&b, strings.TrimRight(printable.Lines(string(text), 4*len(text)), "\n"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func showTrees(w io.Writer, items []store.Item, single bool) error {
	trees := []any{}
	for _, item := range items {
		text, err := store.Shown(item.Key, item.Text, item.Revision)
		if err != nil {
			return fmt.Errorf("%s: the stored text is not an object: %w; -o yaml shows it", titled(item.Key), err)
		}
		tree, bad := config.Document{Text: text}.Tree()
		if bad != nil {
			return fmt.Errorf("%s: the stored text is not an object: %s; -o yaml shows it", titled(item.Key), bad.Message)
		}
		trees = append(trees, tree)
	}
	if single && len(trees) == 1 {
		return output.WriteValue(w, "json", trees[0])
	}
	return output.WriteValue(w, "json", map[string]any{"apiVersion": "v1", "kind": "List", "items": trees})
}

// metadata returns a field of an object's metadata; Empty: there is none.
func metadata(text []byte, field string) string {
	tree, bad := config.Document{Text: text}.Tree()
	object, _ := tree.(map[string]any)
	meta, _ := object["metadata"].(map[string]any)
	value, _ := meta[field].(string)
	if n, ok := meta[field].(json.Number); ok {
		value = n.String()
	}
	if bad != nil {
		return ""
	}
	return value
}

func created(text []byte) string {
	if !bytes.Contains(text, []byte("creationTimestamp")) {
		return ""
	}
	return metadata(text, "creationTimestamp")
}
