// visited are the elements that had the focus during this walk, last is the last one, on which the
// focus stayed for so many steps.
globalThis.visited = new Set();
globalThis.last = null;
globalThis.stayed = 0;

function beginWalk() {
	visited.clear();
	last = null;
}

// staysOn reports whether the focus is still on a field of several parts, such as a date.
function staysOn(e) {
	return e === last && /^(date|datetime-local|month|time|week)$/.test(e.type) && stayed++ < 10;
}

// visit describes the element that has the focus.
function visit() {
	let e = document.activeElement;
	while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;
	if (e && staysOn(e)) return {};
	if (!e || e === document.body || e === document.documentElement || visited.has(e)) return {End: true};
	visited.add(e);
	last = e;
	stayed = 0;
	let faults = sight(e);
	if (faults.length) { // a part of the page that was loaded late may have moved it
		e.scrollIntoView({block: 'nearest', inline: 'nearest', behavior: 'instant'});
		faults = sight(e);
	}
	return {Element: describe(e), Faults: [...faults, ...ring(e)]};
}

// sight returns an error if no part of the element can be seen.
function sight(e) {
	const r = e.getBoundingClientRect();
	if (r.width < 1 || r.height < 1) return ['has no size when it has the focus'];
	const seen = [[.5, .5], [.05, .05], [.95, .05], [.05, .95], [.95, .95]].some(([x, y]) => {
		const at = document.elementFromPoint(r.left + x * r.width, r.top + y * r.height);
		return at && e.contains(at);
	});
	return seen ? [] : ['is covered or outside the window when it has the focus'];
}

// ring returns an error if no outline of at least 2 px shows the focus.
function ring(e) {
	const s = getComputedStyle(e);
	const outline = s.outlineStyle !== 'none' && s.outlineStyle !== 'auto' && parseFloat(s.outlineWidth) >= 2;
	return outline ? [] : [`shows the focus with the outline "${s.outline}", not with one of 2 px`];
}

// missed returns the elements with which the user can do something, and which never had the focus.
function missed() {
	const all = document.querySelectorAll('a[href], area[href], button, input, select, textarea, summary, iframe, [contenteditable], [tabindex]');
	return [...all].filter(e => !visited.has(e) && !e.disabled && e.tabIndex >= 0 && !e.closest('[inert]') &&
		e.type !== 'hidden' && !(e.type === 'radio' && !e.checked) &&
		e.checkVisibility({visibilityProperty: true})).map(describe);
}
