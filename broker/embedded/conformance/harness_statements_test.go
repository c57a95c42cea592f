package conformance

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// statementsOfMQTT311 and statementsOfMQTT5 are the numbers of numbered statements in each
// section of the two standards.
var (
	statementsOfMQTT311 = map[string]int{
		"1.5.3": 3, "2.2.2": 2, "2.3.1": 7, "3.1.0": 2, "3.1.2": 24, "3.1.3": 11, "3.1.4": 5, "3.2.0": 1, "3.2.2": 6,
		"3.3.1": 12, "3.3.2": 3, "3.3.4": 1, "3.3.5": 2, "3.6.1": 1, "3.8.1": 1, "3.8.3": 4, "3.8.4": 6, "3.9.3": 2,
		"3.10.1": 1, "3.10.3": 2, "3.10.4": 6, "3.12.4": 1, "3.14.1": 1, "3.14.4": 3, "4.1.0": 2, "4.3.1": 1, "4.3.2": 2,
		"4.3.3": 2, "4.4.0": 1, "4.5.0": 2, "4.6.0": 6, "4.7.1": 3, "4.7.2": 1, "4.7.3": 4, "4.8.0": 2, "6.0.0": 4,
		"7.0.0": 2, "7.1.1": 1, "7.1.2": 1,
	}
	statementsOfMQTT5 = map[string]int{
		"1.5.4": 3, "1.5.5": 1, "1.5.7": 1, "2.1.3": 1, "2.2.1": 6, "2.2.2": 1, "3.1.0": 2, "3.1.2": 30, "3.1.3": 12,
		"3.1.4": 6, "3.2.0": 2, "3.2.2": 22, "3.3.1": 13, "3.3.2": 20, "3.3.4": 10, "3.4.2": 3, "3.5.2": 3, "3.6.1": 1,
		"3.6.2": 3, "3.7.2": 3, "3.8.1": 1, "3.8.3": 5, "3.8.4": 8, "3.9.2": 2, "3.9.3": 2, "3.10.1": 1, "3.10.3": 2,
		"3.10.4": 6, "3.11.2": 2, "3.11.3": 2, "3.12.4": 1, "3.14.0": 1, "3.14.1": 1, "3.14.2": 4, "3.14.4": 3, "3.15.1": 1,
		"3.15.2": 3, "4.1.0": 2, "4.2": 1, "4.3.1": 1, "4.3.2": 5, "4.3.3": 13, "4.4.0": 2, "4.5.0": 2, "4.6.0": 6,
		"4.7.0": 1, "4.7.1": 2, "4.7.2": 1, "4.7.3": 4, "4.8.2": 6, "4.9.0": 3, "4.12.0": 7, "4.12.1": 2, "4.13.1": 1,
		"4.13.2": 1, "6.0.0": 4,
	}
)

// numberless is a number of MQTT 5 that no statement has.
const numberless = "[MQTT-2.2.1-1]"

// row is a line of the tables of CONFORMANCE.md.
var row = regexp.MustCompile(`^\| (\[MQTT-[0-9.]+-[0-9]+\]) \| ([^|]+) \| ([^|]+) \|$`)

// testName matches the name of a test in a sentence, testFunction in a source file.
var (
	testName     = regexp.MustCompile(`\bTest[A-Z]\w*`)
	testFunction = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(t \*testing\.T\)`)
)

// TestStatements compares CONFORMANCE.md with the numbers of the standards, each once, and
// with the existing tests: every test that it names exists, and a statement without one has
// a reason.
func TestStatements(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../engine/CONFORMANCE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems(string(text), testFunctions(t)) {
		t.Error(problem)
	}
}

// problems lists what is wrong with the text of CONFORMANCE.md.
func problems(text string, tests map[string]bool) (list []string) {
	_, text, _ = strings.Cut(text, "\n## MQTT 3.1.1\n")
	older, newer, found := strings.Cut(text, "\n## MQTT 5\n")
	if !found {
		return []string{`the sections "MQTT 3.1.1" and "MQTT 5" are not there in this order`}
	}
	list = tableProblems("MQTT 3.1.1", older, numbers(statementsOfMQTT311), tests)
	return append(list, tableProblems("MQTT 5", newer, numbers(statementsOfMQTT5), tests)...)
}

func tableProblems(standard, table string, missing map[string]bool, tests map[string]bool) (list []string) {
	add := func(format string, args ...any) { list = append(list, standard+": "+fmt.Sprintf(format, args...)) }
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| [") {
			continue
		}
		m := row.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			add("not a row: %s", strings.TrimSpace(line))
			continue
		}
		if !missing[m[1]] {
			add("%s occurs twice, or is not a statement", m[1])
		}
		delete(missing, m[1])
		named := testName.FindAllString(m[3], -1)
		for _, name := range named {
			if !tests[name] {
				add("%s: there is no %s", m[1], name)
			}
		}
		reasoned := strings.HasPrefix(m[3], "client: ") || strings.HasPrefix(m[3], "no test: ")
		if len(named) == 0 && !reasoned {
			add("%s: neither a test nor a reason", m[1])
		}
	}
	for _, number := range slices.Sorted(maps.Keys(missing)) {
		add("%s is missing", number)
	}
	return list
}

// numbers returns the statements of all sections.
func numbers(sections map[string]int) map[string]bool {
	all := map[string]bool{}
	for section, count := range sections {
		for i := range count {
			all[fmt.Sprintf("[MQTT-%s-%d]", section, i+1)] = true
		}
	}
	delete(all, numberless)
	return all
}

// testFunctions finds the tests of the embedded broker and its packages.
func testFunctions(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, pattern := range []string{"*_test.go", "../*_test.go", "../*/*_test.go", "../engine/*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range testFunction.FindAllSubmatch(source, -1) {
				found[string(m[1])] = true
			}
		}
	}
	return found
}

// TestStatementsCanFail shows that TestStatements detects errors.
func TestStatementsCanFail(t *testing.T) {
	t.Parallel()
	good := table("MQTT 3.1.1", numbers(statementsOfMQTT311)) + table("MQTT 5", numbers(statementsOfMQTT5))
	tests := map[string]bool{"TestThis": true}
	if list := problems(good, tests); len(list) > 0 {
		t.Errorf("complaints about what is right: %q", list)
	}
	line := "| [MQTT-3.1.0-1] | short | TestThis |\n"
	for name, wrong := range map[string]string{
		"missing":        strings.Replace(good, line, "", 1),
		"twice":          strings.Replace(good, line, line+line, 1),
		"no statement":   strings.Replace(good, line, line+"| [MQTT-9.9.9-1] | short | TestThis |\n", 1),
		"no such test":   strings.Replace(good, line, "| [MQTT-3.1.0-1] | short | TestThat |\n", 1),
		"without reason": strings.Replace(good, line, "| [MQTT-3.1.0-1] | short | perhaps |\n", 1),
		"without words":  strings.Replace(good, line, "| [MQTT-3.1.0-1] | TestThis |\n", 1),
		"no sections":    line,
	} {
		if len(problems(wrong, tests)) == 0 {
			t.Errorf("%s: no complaint", name)
		}
	}
}

func table(standard string, numbers map[string]bool) string {
	text := "\n## " + standard + "\n"
	for number := range numbers {
		text += "| " + number + " | short | TestThis |\n"
	}
	return text
}
