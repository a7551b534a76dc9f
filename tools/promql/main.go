// Command promql says what queries and rules of Prometheus ask for, by Prometheus' own parser. It reads JSON of type question from its
// input, and writes JSON of type answer. It is a module of its own: nothing else here needs Prometheus.
package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// question has queries, and files of rules.
type question struct{ Queries, Rules []string }

// answer has a result for each, in the same order.
type answer struct {
	Queries []query
	Rules   []rules
}

// query names the series that a query asks for.
type query struct {
	Error     string `json:",omitempty"`
	Selectors []selector
	Groups    []group
}

// selector is one selection of series.
type selector struct {
	Metric string
	Labels []string
}

// group has the labels that an aggregation keeps or a match needs, and the metrics below it.
type group struct{ Labels, Metrics []string }

// rules is a file of rules: its mistakes, and the expressions of its rules.
type rules struct {
	Errors      []string
	Expressions []string
	Alerts      []alert
}

// alert describes an alert.
type alert struct {
	Name, For           string
	Labels, Annotations map[string]string
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var in question
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		return fmt.Errorf("read the question: %w", err)
	}
	p := parser.NewParser(parser.Options{})
	var out answer
	for _, text := range in.Queries {
		out.Queries = append(out.Queries, ask(p, text))
	}
	for _, text := range in.Rules {
		out.Rules = append(out.Rules, read(p, text))
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// ask parses a query.
func ask(p parser.Parser, text string) (out query) {
	tree, err := p.ParseExpr(text)
	if err != nil {
		return query{Error: err.Error()}
	}
	parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			out.Selectors = append(out.Selectors, selectorOf(n))
		case *parser.AggregateExpr:
			if !n.Without {
				out.Groups = append(out.Groups, group{n.Grouping, metrics(n.Expr)})
			}
		case *parser.BinaryExpr:
			if n.VectorMatching != nil && n.VectorMatching.On {
				out.Groups = append(out.Groups, group{n.VectorMatching.MatchingLabels, metrics(n)})
			}
		}
		return nil
	})
	return out
}

func selectorOf(n *parser.VectorSelector) selector {
	s := selector{Metric: n.Name}
	for _, m := range n.LabelMatchers {
		switch {
		case m.Name != labels.MetricName:
			s.Labels = append(s.Labels, m.Name)
		case s.Metric == "" && m.Type == labels.MatchEqual:
			s.Metric = m.Value
		}
	}
	return s
}

// metrics lists those below a node.
func metrics(below parser.Node) (out []string) {
	parser.Inspect(below, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			out = append(out, selectorOf(v).Metric)
		}
		return nil
	})
	return out
}

// read parses a file of rules.
func read(p parser.Parser, text string) (out rules) {
	groups, errs := rulefmt.Parse([]byte(text), false, model.LegacyValidation, p, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		out.Errors = append(out.Errors, strings.TrimSpace(err.Error()))
	}
	if groups == nil {
		return out
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			out.Expressions = append(out.Expressions, r.Expr)
			if r.Alert != "" {
				out.Alerts = append(out.Alerts, alert{r.Alert, r.For.String(), r.Labels, r.Annotations})
			}
		}
	}
	return out
}
