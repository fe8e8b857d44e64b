// Renders a Helm chart as `helm template` does, with the packages that Helm itself is made of: text/template, Sprig and sigs.k8s.io/yaml, of Debian,
// which has no Helm. For tests.
//
//	render_chart CHART RELEASE NAMESPACE [VALUES...]
//
// Prints a JSON object of the rendered templates by file name, and ends with 1 and a message if one fails. It is stricter than Helm: a key that no
// file of values has is an error. It has no subcharts, hooks and `lookup`, which this chart has no use for.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type object = map[string]interface{}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(path string) object {
	text, err := os.ReadFile(path)
	check(err)
	found := object{}
	check(yaml.Unmarshal(text, &found))
	return found
}

// As Helm lays one file of values over another: maps key by key, all else as a whole; null removes a key.
func overlay(below, above object) {
	for key, value := range above {
		inner, isMap := value.(object)
		under, wasMap := below[key].(object)
		if value == nil {
			delete(below, key)
		} else if isMap && wasMap {
			overlay(under, inner)
		} else {
			below[key] = value
		}
	}
}

type files struct{ folder string }

func (f files) Get(name string) string {
	text, err := os.ReadFile(filepath.Join(f.folder, name))
	if err != nil {
		return ""
	}
	return string(text)
}

func functions(all *template.Template) template.FuncMap {
	found := sprig.TxtFuncMap()
	delete(found, "env")
	delete(found, "expandenv")
	found["include"] = func(name string, data interface{}) (string, error) {
		var text strings.Builder
		err := all.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	found["required"] = func(message string, value interface{}) (interface{}, error) {
		if text, isText := value.(string); value == nil || isText && text == "" {
			return nil, fmt.Errorf("%s", message)
		}
		return value, nil
	}
	found["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	found["fromYaml"] = func(text string) (object, error) {
		found := object{}
		return found, yaml.Unmarshal([]byte(text), &found)
	}
	return found
}

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: render_chart CHART RELEASE NAMESPACE [VALUES...]")
		os.Exit(2)
	}
	chart := os.Args[1]
	values := read(filepath.Join(chart, "values.yaml"))
	for _, path := range os.Args[4:] {
		overlay(values, read(path))
	}
	about := object{}
	for key, value := range read(filepath.Join(chart, "Chart.yaml")) { // as a template sees it: AppVersion
		about[strings.ToUpper(key[:1])+key[1:]] = value
	}
	data := object{
		"Values":  values,
		"Chart":   about,
		"Release": object{"Name": os.Args[2], "Namespace": os.Args[3], "Service": "Helm", "Revision": 1, "IsInstall": true, "IsUpgrade": false},
		"Files":   files{chart},
	}

	all := template.New("chart").Option("missingkey=error")
	all.Funcs(functions(all))
	paths, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	check(err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		check(err)
		_, err = all.New(filepath.Base(path)).Parse(string(text))
		check(err)
	}
	rendered := map[string]string{}
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasPrefix(name, "_") {
			continue
		}
		var text bytes.Buffer
		check(all.ExecuteTemplate(&text, name, data))
		rendered[name] = text.String()
	}
	check(json.NewEncoder(os.Stdout).Encode(rendered))
}
