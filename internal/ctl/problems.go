package ctl

import (
	"fmt"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/ctl/output"
)

func (s *session) problems() *cobra.Command {
	var severity string
	var everywhere bool
	var namespace string
	cmd := &cobra.Command{
		Use:   "problems",
		Short: "List errors in users' objects: where they are and how to correct them",
		Args:  cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error {
			if !slices.Contains([]string{"", "info", "warning", "error"}, severity) {
				return fmt.Errorf("--severity %s: want info, warning or error", severity)
			}
			return nil
		},
		RunE: s.run(func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			if severity != "" {
				query.Set("severity", severity)
			}
			problems, err := ask[[]page.ProblemInfo](cmd.Context(), s, "/debug/problems", query)
			if err != nil {
				return err
			}
			if namespace != "" && !everywhere {
				problems = slices.DeleteFunc(problems, func(p page.ProblemInfo) bool { return p.Namespace != namespace })
			}
			return output.WriteProblems(cmd.OutOrStdout(), s.format, s.own, problems)
		}),
	}
	cmd.Flags().StringVar(&severity, "severity", "", "only problems at least this bad: info, warning or error")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "only problems of objects of this namespace")
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "of all namespaces, whatever -n says")
	cmd.Annotations = map[string]string{problemList: "true"}
	return cmd
}
