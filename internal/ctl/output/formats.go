package output

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fairway/internal/admin/page"
	"fairway/internal/printable"
)

// ProblemFormats are the values of -o, beside table, for lists of problems.
var ProblemFormats = []string{"json", "yaml", "oneline", "sarif", "github"}

// WriteProblems prints problems in one of ProblemFormats, or for people. version is that of this program.
func WriteProblems(w io.Writer, format, version string, problems []page.ProblemInfo) error {
	switch format {
	case "json", "yaml":
		return WriteValue(w, format, problems)
	case "oneline":
		return lines(w, problems, oneline)
	case "github":
		return lines(w, problems, workflow)
	case "sarif":
		return WriteValue(w, "json", sarif(version, problems))
	}
	return Problems(w, problems)
}

func lines(w io.Writer, problems []page.ProblemInfo, line func(page.ProblemInfo) string) error {
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintln(&b, line(p))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// sentence returns the mistake and how to correct it, in one line.
func sentence(p page.ProblemInfo) string {
	s := p.Message
	if p.Fix != "" {
		s += "; fix: " + p.Fix
	}
	return printable.Text(strings.Join(strings.Fields(s), " "), printable.Long)
}

func oneline(p page.ProblemInfo) string {
	return printable.Text(fmt.Sprintf("%s%s: %s", place(p), p.Severity, heading(p)), printable.Long) + ": " + sentence(p)
}

// githubLevels are the commands of GitHub's workflows by severity; any other severity is a notice.
var githubLevels = map[string]string{"error": "error", "warning": "warning"}

// In a command of a workflow these characters would end its message or a property.
var (
	githubText     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// workflow returns a problem as a command of GitHub's workflows, which marks the line in the change.
func workflow(p page.ProblemInfo) string {
	level, known := githubLevels[p.Severity]
	if !known {
		level = "notice"
	}
	var properties []string
	add := func(name, value string) {
		if value != "" {
			properties = append(properties, name+"="+githubProperty.Replace(printable.Text(value, printable.Long)))
		}
	}
	if p.File != "" {
		add("file", relative(p.File))
		if p.Line > 0 {
			add("line", fmt.Sprint(p.Line))
		}
	}
	add("title", p.Code)
	return "::" + level + " " + strings.Join(properties, ",") + "::" +
		githubText.Replace(printable.Text(heading(p), printable.Long)+": "+sentence(p))
}

// relative returns a file's path from the current folder if it is below that.
func relative(file string) string {
	if here, err := os.Getwd(); err == nil && filepath.IsAbs(file) {
		if path, err := filepath.Rel(here, file); err == nil && filepath.IsLocal(path) {
			file = path
		}
	}
	return filepath.ToSlash(file)
}

// The parts of SARIF 2.1.0 that code scanning reads.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver sarifDriver `json:"driver"`
		} `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID      string       `json:"id"`
		Short   sarifText    `json:"shortDescription"`
		Default sarifDefault `json:"defaultConfiguration"`
	}
	sarifDefault struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		Rule         string            `json:"ruleId"`
		Index        int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      sarifText         `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region struct {
			Start int `json:"startLine"`
		} `json:"region"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
		Kind string `json:"kind"`
	}
)

const (
	sarifSchema = "https://json.schemastore.org/sarif-2.1.0.json"
	// mostResults is how many results code scanning takes of one run.
	mostResults = 25_000
)

// sarif returns problems as a log of SARIF. Code scanning refuses a result without a file and a line: if a problem has none, the object's
// name is in the file's place.
func sarif(version string, problems []page.ProblemInfo) sarifLog {
	run := sarifRun{Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "pilotctl", Version: version, Rules: []sarifRule{}}
	rules := map[string]int{}
	for _, p := range problems[:min(len(problems), mostResults)] {
		level := p.Severity
		if level != "error" && level != "warning" {
			level = "note"
		}
		i, known := rules[p.Code]
		if !known {
			i = len(rules)
			rules[p.Code] = i
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{p.Code, sarifText{p.Code}, sarifDefault{level}})
		}
		object := strings.TrimPrefix(p.Namespace+"/"+p.Name, "/")
		sum := sha256.Sum256([]byte(strings.Join([]string{p.Code, p.Kind, p.Namespace, p.Name, p.Field, p.Message}, "\x00")))
		r := sarifResult{
			Rule: p.Code, Index: i, Level: level, Message: sarifText{heading(p) + ": " + sentence(p)},
			Locations:    []sarifLocation{{Logical: []sarifLogical{{p.Kind + "/" + object, "object"}}}},
			Fingerprints: map[string]string{"problem/v1": hex.EncodeToString(sum[:])},
		}
		at := &r.Locations[0].Physical
		at.Artifact.URI, at.Region.Start = uriOf(p, object), max(p.Line, 1)
		run.Results = append(run.Results, r)
	}
	return sarifLog{sarifSchema, "2.1.0", []sarifRun{run}}
}

func uriOf(p page.ProblemInfo, object string) string {
	if p.File == "" {
		return (&url.URL{Path: strings.TrimSuffix(p.Kind+"/"+object, "/")}).String()
	}
	path := relative(p.File)
	if filepath.IsAbs(path) {
		return (&url.URL{Scheme: "file", Path: path}).String()
	}
	return (&url.URL{Path: path}).String()
}

// KnownProblemFormat returns an error if format is not a way to print problems.
func KnownProblemFormat(format, plain string) error {
	if format == plain || slices.Contains(ProblemFormats, format) {
		return nil
	}
	return fmt.Errorf("-o %s: want %s, %s", printable.Text(format, printable.Short), plain, strings.Join(ProblemFormats, ", "))
}
