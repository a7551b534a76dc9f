package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"fairway/internal/analyze"
	"fairway/internal/config"
	"fairway/internal/ctl/cluster"
	"fairway/internal/ctl/output"
	"fairway/internal/ctl/stored"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
)

// flags are the command's.
type flags struct {
	from      *stored.Source
	options   Options
	recursive bool
	format    string
}

// Command returns the verb.
func Command(places *cluster.Flags) *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:   "to-gateway-api [FILE|FOLDER|-]...",
		Short: "Write Gateways and VirtualServices as objects of the Gateway API",
		Long: "Writes objects of the Gateway API with the effect of Gateways and VirtualServices: of files, or, if none is named, of a " +
			"folder, an etcd or a cluster. Nothing is changed there.\n\n" +
			"What the Gateway API cannot say is a line of the error output: the place, the object, the field, and what to do. " +
			"An object with such a field is left out; --partial writes the rest of it.\n" +
			"ServiceEntries and Services are read for their ports. Services are only read from files.\n\n" +
			"  pilotctl x to-gateway-api rules/ services.yaml > gateway-api.yaml\n" +
			"  pilotctl x to-gateway-api -A --whole-elements\n\n" +
			"It ends with 0 if all was written, with 1 if something was not, and with 2 if it could not read everything.",
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.from = stored.NewSource(cmd, places)
	s := cmd.Flags()
	s.BoolVarP(&f.recursive, "recursive", "R", false, "read folders in folders too")
	s.BoolVar(&f.options.Partial, "partial", false, "write what can be said of objects that cannot be said as a whole")
	s.BoolVar(&f.options.Elements, "whole-elements", false,
		"write prefixes of paths as PathPrefix, which takes whole path elements: /api no longer takes /apis (default: as regular "+
			"expressions)")
	s.StringVar(&f.options.Class, "class", "fairway", "GatewayClass of the Gateways")
	s.StringVar(&f.options.Domain, "domain", "cluster.local", "DNS suffix of services")
	s.StringVarP(&f.format, "output", "o", "yaml", "yaml, json or name")
	return cmd
}

func (f *flags) run(cmd *cobra.Command, args []string) error {
	if formats := []string{"yaml", "json", "name"}; !slices.Contains(formats, f.format) {
		return fmt.Errorf("-o %s: want %s", printable.Text(f.format, printable.Short), strings.Join(formats, ", "))
	}
	if len(args) > 0 && f.from.Named(cmd) {
		return errors.New("files, and --folder or --store: want one of them")
	}
	objects, problems, unread := f.read(cmd, args)
	if unread != nil && len(objects) == 0 {
		return unread
	}
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		return output.Fail(err)
	}
	f.options.Decoder = decoder
	made, remarks := Convert(f.options, objects)
	remarks = append(problems, remarks...)
	lost := 0
	for _, r := range remarks {
		if r.Lost {
			lost++
		}
		fmt.Fprintln(cmd.ErrOrStderr(), printable.Text(r.String(), printable.Long))
	}
	if err := write(cmd.OutOrStdout(), f.format, made); err != nil {
		return output.Fail(err)
	}
	if unread != nil {
		return unread
	}
	if lost > 0 {
		return output.Fail(fmt.Errorf("%s cannot be said in the Gateway API", output.Plural(lost, "field")))
	}
	return nil
}

// read reads the objects. problems are those of objects that are not valid; unread says what could not be read.
func (f *flags) read(cmd *cobra.Command, args []string) (out []*config.Object, problems []Remark, unread error) {
	if len(args) == 0 {
		out, err := f.from.Objects(cmd, config.Gateway, config.VirtualService, config.DestinationRule, config.ServiceEntry)
		return out, nil, err
	}
	docs, unread := analyze.Documents(args, f.recursive, cmd.InOrStdin())
	decoder, err := config.NewDecoder(config.Options{DefaultNamespace: f.from.Namespace()})
	if err != nil {
		return nil, nil, output.Fail(err)
	}
	f.options.Ports = map[mesh.Host][]mesh.Port{}
	for _, doc := range docs {
		o, found := decoder.Decode(doc)
		if o != nil {
			out = append(out, o)
			continue
		}
		f.service(doc)
		for _, p := range found {
			if p.Severity == mesh.Error && p.Code != code.ForeignKind {
				problems = append(problems, Remark{Object: p.Object, Line: p.Line, Field: p.Field, What: p.Message, Fix: p.Fix, Lost: true})
			}
		}
	}
	return out, problems, unread
}

// service reads the ports of a Service of Kubernetes; other documents are none of its business.
func (f *flags) service(doc config.Document) {
	var s struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct{ Name, Namespace string }
		Spec       struct {
			Ports []struct {
				Name        string
				Port        uint32
				AppProtocol string `json:"appProtocol"`
			}
		}
	}
	if yaml.Unmarshal(doc.Text, &s) != nil || s.APIVersion != "v1" || s.Kind != "Service" {
		return
	}
	if s.Metadata.Namespace == "" {
		s.Metadata.Namespace = f.from.Namespace()
	}
	host := mesh.FullHost(s.Metadata.Name, s.Metadata.Namespace, f.options.Domain)
	for _, p := range s.Spec.Ports {
		word, _, _ := strings.Cut(p.Name, "-")
		protocol, known := mesh.ParseProtocol(p.AppProtocol)
		if !known {
			protocol, _ = mesh.ParseProtocol(word)
		}
		f.options.Ports[host] = append(f.options.Ports[host], mesh.Port{Name: p.Name, Number: p.Port, Protocol: protocol})
	}
}

// write prints objects as documents, as a list, or by their names.
func write(w io.Writer, format string, objects []*config.Object) error {
	var docs []json.RawMessage
	for i, o := range objects {
		text, err := o.JSON()
		if err != nil {
			return err
		}
		switch docs = append(docs, text); format {
		case "name":
			_, err = fmt.Fprintf(w, "%s/%s/%s\n", o.Kind.Word(), o.Namespace, o.Name)
		case "yaml":
			if i > 0 {
				fmt.Fprintln(w, "---")
			}
			err = output.WriteValue(w, "yaml", json.RawMessage(text))
		}
		if err != nil {
			return err
		}
	}
	if format != "json" {
		return nil
	}
	if docs == nil {
		docs = []json.RawMessage{}
	}
	return output.WriteValue(w, "json", map[string]any{"apiVersion": "v1", "kind": "List", "items": docs})
}
