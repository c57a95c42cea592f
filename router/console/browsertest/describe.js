// describe returns the start tag of an element and where it is in the document.
function describe(element) {
	const path = [];
	for (let e = element; e && e !== document.documentElement; e = e.parentElement) {
		path.unshift(e.id ? `#${e.id}` : e.localName);
		if (e.id) break;
	}
	const tag = element.cloneNode(false).outerHTML.replace(/<\/[^<]*>$/, '').slice(0, 120);
	return `${path.join(' > ')} ${tag}`;
}
