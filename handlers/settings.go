package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"signalbox/db"
)

// The types of broker records.
const (
	typeCloud      = "cloud"
	typeSelfHosted = "self-hosted"
	typeOnPremise  = "on-premise-setup"
)

// ServiceBase is what every variant of a broker record has.
type ServiceBase struct {
	Type      string    `json:"type" enum:"cloud|self-hosted|on-premise-setup"`
	HA        bool      `json:"ha"`
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	ProjectID string    `json:"project_id"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Billing is under what terms a broker was set up.
type Billing struct {
	IssuedTo                  string  `json:"issued_to"`
	ProductID                 string  `json:"product_id"`
	PeriodStart               string  `json:"period_start"`
	CanceledAt                *string `json:"canceled_at,omitempty"`
	PeriodEnd                 *string `json:"period_end,omitempty"`
	BillingSubscriptionItemID *string `json:"billing_subscription_item_id,omitempty"`
}

// CloudDetails is what only a cloud broker has.
type CloudDetails struct {
	Options     string  `json:"options"`
	Subdomain   string  `json:"subdomain"`
	ZoneName    string  `json:"zone_name"`
	Location    string  `json:"location" enum:"fsn1|nbg1|hel1|ash|hil|sin"`
	State       string  `json:"state" enum:"active|inactive|new|provisioning|updating|error|stopping_payment|payment_stopped|shutting_down"`
	TargetState string  `json:"target_state" enum:"active|inactive"`
	DeployedAt  *string `json:"deployed_at,omitempty"`
	DeleteAt    *string `json:"delete_at,omitempty"`
}

// CloudService is a broker of type cloud.
type CloudService struct {
	_ struct{} `strict:"true"`
	ServiceBase
	URL          string `json:"url"`
	VerifyCACert bool   `json:"verify_ca_cert"`
	Billing
	CloudDetails
}

// SelfHostedService is a broker of type self-hosted.
type SelfHostedService struct {
	_ struct{} `strict:"true"`
	ServiceBase
	URL          string `json:"url"`
	VerifyCACert bool   `json:"verify_ca_cert"`
}

// OnPremiseService is a broker of type on-premise-setup.
type OnPremiseService struct {
	_ struct{} `strict:"true"`
	ServiceBase
	Billing
}

// ProjectService is a broker in one of the three variants.
type ProjectService struct{ variant any }

// MarshalJSON writes the variant.
func (s ProjectService) MarshalJSON() ([]byte, error) { return json.Marshal(s.variant) }

// OneOf gives the variants for the document.
func (ProjectService) OneOf() []any {
	return []any{CloudService{}, SelfHostedService{}, OnPremiseService{}}
}

func (a *API) serviceBase(row db.Broker) ServiceBase {
	return ServiceBase{Type: row.Type, HA: row.HA || a.nodeOf(row) != "", ID: row.ID, Name: row.Name, ProjectID: row.ProjectID,
		CreatedAt: row.CreatedAt.UTC(), UpdatedAt: row.UpdatedAt.UTC()}
}

// details reads the members that only some variants have.
func details(row db.Broker) (b *Billing, c *CloudDetails, err error) {
	if row.Type == typeSelfHosted {
		return nil, nil, nil
	}
	b = &Billing{}
	if err := json.Unmarshal(row.Details, b); err != nil {
		return nil, nil, fmt.Errorf("read details of broker %s: %w", row.ID, err)
	}
	if row.Type != typeCloud {
		return b, nil, nil
	}
	c = &CloudDetails{}
	return b, c, json.Unmarshal(row.Details, c)
}

// onPremiseRow makes the record of the broker in this process.
func onPremiseRow(projectID, url string, now time.Time) (db.Broker, error) {
	details, err := json.Marshal(Billing{ProductID: "signalbox", PeriodStart: now.UTC().Format(time.RFC3339)})
	return db.Broker{ID: newID(), ProjectID: projectID, Rev: 1, Type: typeOnPremise, Name: EmbeddedName, URL: url,
		VerifyCACert: true, MetricsEnabled: true, TopicTree: true, Details: details, CreatedAt: now, UpdatedAt: now}, err
}

// isOnPremise tells whether a record is that of a broker in this process.
func isOnPremise(row db.Broker) bool { return row.Type == typeOnPremise }

func (a *API) projectService(row db.Broker) (ProjectService, error) {
	billing, cloud, err := details(row)
	switch base := a.serviceBase(row); {
	case err != nil:
		return ProjectService{}, err
	case cloud != nil:
		return ProjectService{CloudService{ServiceBase: base, URL: row.URL, VerifyCACert: row.VerifyCACert,
			Billing: *billing, CloudDetails: *cloud}}, nil
	case billing != nil:
		return ProjectService{OnPremiseService{ServiceBase: base, Billing: *billing}}, nil
	default:
		return ProjectService{SelfHostedService{ServiceBase: base, URL: row.URL, VerifyCACert: row.VerifyCACert}}, nil
	}
}

// GetProjectSettingsRequest names a project.
type GetProjectSettingsRequest struct{ ProjectPath }

// ProjectSettings is a project with its brokers.
type ProjectSettings struct {
	Project  ProjectDefinition `json:"project"`
	Services []ProjectService  `json:"services"`
}

// ProjectDefinition is a project as it is stored.
type ProjectDefinition struct {
	_           struct{}          `strict:"true"`
	ID          string            `json:"id"`
	UserID      *string           `json:"user_id"`
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Owner       ProjectOwnerIdent `json:"owner"`
}

// ProjectOwnerIdent is who owns a project, by id.
type ProjectOwnerIdent struct {
	_              struct{} `strict:"true"`
	UserID         string   `json:"userId,omitempty"`
	OrganizationID string   `json:"organizationId,omitempty"`
}

// GetProjectSettings gives a project with its brokers.
func (a *API) GetProjectSettings(ctx context.Context, r *GetProjectSettingsRequest) (ProjectSettings, error) {
	p, err := a.DB.GetProject(ctx, r.ProjectID)
	if err != nil {
		return ProjectSettings{}, err
	}
	rows, err := a.visibleBrokers(ctx, r.ProjectID)
	if err != nil {
		return ProjectSettings{}, err
	}
	s := ProjectSettings{Services: make([]ProjectService, 0, len(rows)),
		Project: ProjectDefinition{ID: p.ID, Name: p.Name, Description: p.Description,
			Owner: ProjectOwnerIdent{UserID: p.OwnerID, OrganizationID: p.OrganizationID}}}
	if p.OwnerID != "" {
		s.Project.UserID = &p.OwnerID
	}
	for _, row := range rows {
		svc, err := a.projectService(row)
		if err != nil {
			return ProjectSettings{}, err
		}
		s.Services = append(s.Services, svc)
	}
	return s, nil
}
