package identity

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/berth-dev/berth/pkg/tenancy"
)

const (
	// UserInfoAnnotation holds who submitted a Placement, as JSON: {"user": …, "username": …,
	// "groups": […]}.
	UserInfoAnnotation = "yunikorn.apache.org/user.info"
	// UserLabelEnv names the environment variable that holds the key of the label that names a
	// user; DefaultUserLabel where it is unset.
	UserLabelEnv = "USER_LABEL_KEY"
	// DefaultUserLabel is the label that names a user on a hub where clients do not forge labels.
	DefaultUserLabel = "yunikorn.apache.org/username"
	// Nobody is the user of a Placement that carries no identity.
	Nobody = "nobody"
)

// Identity is a user and the groups the user is in. Groups is nil where they are not known and a
// GroupResolver must say; an empty list is an answer: none.
type Identity struct {
	User   string
	Groups []string
}

// Parse reads the value of the user.info annotation. The name is the string under "user" or
// "username", the two agreeing where both are there; "groups" is a list of strings, absent or null
// where the groups are not known. Other keys mean nothing. It returns an error for all else: no
// JSON object, a key twice, no name or an empty one.
func Parse(text string) (Identity, error) {
	fields, err := identityFields(text)
	if err != nil {
		return Identity{}, err
	}
	identity := Identity{}
	for _, key := range []string{"user", "username"} {
		raw, ok := fields[key]
		if !ok {
			continue
		}
		var name *string
		if err := json.Unmarshal(raw, &name); err != nil || name == nil {
			return Identity{}, fmt.Errorf("%q is not a string", key)
		}
		if *name == "" {
			return Identity{}, fmt.Errorf("%q is empty", key)
		}
		if identity.User != "" && identity.User != *name {
			return Identity{}, errors.New(tenancy.Messagef("user %q and username %q differ", identity.User, *name))
		}
		identity.User = *name
	}
	if identity.User == "" {
		return Identity{}, errors.New("no user is named")
	}
	if raw, ok := fields["groups"]; ok {
		var names []*string
		if err := json.Unmarshal(raw, &names); err != nil {
			return Identity{}, errors.New(`"groups" is not a list of strings`)
		}
		if names != nil {
			identity.Groups = make([]string, 0, len(names))
		}
		for _, name := range names {
			if name == nil {
				return Identity{}, errors.New(`"groups" is not a list of strings`)
			}
			identity.Groups = append(identity.Groups, *name)
		}
	}
	return identity, nil
}

// identityFields takes the object apart key by key: encoding/json would take "USER" for "user" and
// the last of two values.
func identityFields(text string) (map[string]json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	token, err := decoder.Token()
	if err != nil {
		return nil, errors.New("not a JSON object")
	}
	if token != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	fields := map[string]json.RawMessage{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, fmt.Errorf("not JSON: %w", err)
		}
		key, _ := token.(string) // the decoder accepts nothing else here
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, fmt.Errorf("not JSON: %w", err)
		}
		if _, twice := fields[key]; twice {
			return nil, errors.New(tenancy.Messagef("%q is there twice", key))
		}
		fields[key] = value
	}
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more follows the JSON object")
	}
	return fields, nil
}

// String is the identity as the value of the user.info annotation. It is the same for the same
// identity, names the user under both keys, since readers differ in which they know, and always
// lists the groups.
func (i Identity) String() string {
	groups := i.Groups
	if groups == nil {
		groups = []string{}
	}
	text, err := json.Marshal(struct {
		User     string   `json:"user"`
		Username string   `json:"username"`
		Groups   []string `json:"groups"`
	}{i.User, i.User, groups})
	if err != nil {
		panic(err) // strings always encode
	}
	return string(text)
}

// Read returns the submitter of a Placement: from the user.info annotation, else from the label
// userLabel (empty: DefaultUserLabel), else Nobody. If Parse refuses the annotation, Read returns
// an error: the submitter is then unknown, not Nobody.
func Read(annotations, labels map[string]string, userLabel string) (Identity, error) {
	if text, ok := annotations[UserInfoAnnotation]; ok {
		identity, err := Parse(text)
		if err != nil {
			return Identity{}, fmt.Errorf("annotation %s: %w", UserInfoAnnotation, err)
		}
		return identity, nil
	}
	if user := labels[cmp.Or(userLabel, DefaultUserLabel)]; user != "" {
		return Identity{User: user}, nil
	}
	return Identity{User: Nobody}, nil
}
