package conformance

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
	"sigs.k8s.io/gateway-api/conformance/tests"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/yaml"
)

var (
	list    = flag.Bool("list", false, "print each test's name and features, and run none")
	only    = flag.String("only", "", "comma-separated names of the tests to run; empty: all tests")
	results = flag.String("results", "", "file to write: a line for each test that has ended, with its result, seconds and name")
)

// TestConformance runs the suite. It takes the suite's own flags, too: -conformance-profiles, -all-features, -skip-tests, -report-output, …
func TestConformance(t *testing.T) {
	if *list {
		for _, test := range tests.ConformanceTests {
			fmt.Println(test.ShortName, test.Features)
		}
		return
	}
	if os.Getenv("KUBECONFIG") == "" {
		t.Skip("set KUBECONFIG to the file of the cluster to test")
	}
	chosen, err := choose(tests.ConformanceTests, names(*only))
	if err != nil {
		t.Fatal(err)
	}
	options := conformance.DefaultOptions(t)
	r := newRecorder(t, *results)
	options.Hook = r.hook
	s, err := suite.NewConformanceTestSuite(options)
	if err != nil {
		t.Fatal(err)
	}
	// Parallel tests end after this function has returned. Cleanups run after them.
	t.Cleanup(func() {
		r.close(t)
		report(t, s, options.ReportOutputPath)
	})
	s.Setup(t, chosen)
	if err := s.Run(t, r.timed(chosen)); err != nil {
		t.Fatal(err)
	}
}

// names splits a flag's value at its commas.
func names(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

// choose returns the tests that only names, or all tests if it is empty.
func choose(all []suite.ConformanceTest, only []string) (out []suite.ConformanceTest, err error) {
	for _, name := range only {
		i := slices.IndexFunc(all, func(t suite.ConformanceTest) bool { return t.ShortName == name })
		if i < 0 {
			return nil, fmt.Errorf("the suite has no test %q; -list prints the names", name)
		}
		out = append(out, all[i])
	}
	if len(only) == 0 {
		out = slices.Clone(all)
	}
	return out, nil
}

// report writes the conformance report, with its profiles in the order of their names.
func report(t *testing.T, s *suite.ConformanceTestSuite, path string) {
	if path == "" {
		return
	}
	r, err := s.Report()
	if err != nil {
		t.Error(err)
		return
	}
	slices.SortFunc(r.ProfileReports, func(a, b confv1.ProfileReport) int { return strings.Compare(a.Name, b.Name) })
	text, err := yaml.Marshal(r)
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}
