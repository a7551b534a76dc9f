package stored

import (
	"slices"

	"github.com/spf13/cobra"

	"fairway/internal/config"
	"fairway/internal/ctl/cluster"
	"fairway/internal/ctl/output"
	"fairway/internal/store"
)

// Source reads objects of a folder, an etcd or a cluster, for verbs that change nothing there.
type Source struct {
	keeping
	everywhere bool
}

// NewSource declares the flags that select a place.
func NewSource(cmd *cobra.Command, flags *cluster.Flags) *Source {
	s := &Source{keeping: keeping{flags: flags}}
	s.bind(cmd.Flags())
	cmd.Flags().BoolVarP(&s.everywhere, "all-namespaces", "A", false, "read objects of all namespaces")
	return s
}

// Namespace returns the namespace of objects that name none.
func (s *Source) Namespace() string { return s.namespace }

// Named reports whether a flag of the command line selects a place.
func (s *Source) Named(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("folder") || cmd.Flags().Changed("store")
}

// Objects returns the objects of some kinds, in order. Those that cannot be read are left out: pilotctl analyze says why.
func (s *Source) Objects(cmd *cobra.Command, kinds ...config.Kind) (out []*config.Object, err error) {
	s.format = "yaml"
	if err := s.check(cmd, s.format); err != nil {
		return nil, err
	}
	decoder, err := s.decoder()
	if err != nil {
		return nil, output.Fail(err)
	}
	err = s.with(cmd.Context(), func(p place) error {
		namespace := s.namespace
		if s.everywhere {
			namespace = ""
		}
		items, err := p.List(cmd.Context(), kinds, namespace)
		slices.SortFunc(items, func(a, b store.Item) int { return config.CompareKey(a.Key, b.Key) })
		for _, item := range items {
			if o, _ := decoder.Decode(config.Document{Line: 1, Text: item.Text}); o != nil {
				out = append(out, o)
			}
		}
		return err
	})
	return out, err
}
