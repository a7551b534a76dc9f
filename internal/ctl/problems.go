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
			if s.format == "json" || s.format == "yaml" {
				return output.WriteValue(cmd.OutOrStdout(), s.format, problems)
			}
			return output.Problems(cmd.OutOrStdout(), problems)
		}),
	}
	cmd.Flags().StringVar(&severity, "severity", "", "only problems at least this bad: info, warning or error")
	return cmd
}
